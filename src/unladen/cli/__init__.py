"""The command line: one file per command, over the front door."""

COMPLETE_VARIABLE = "_UNLADEN_COMPLETE"
"""Set by a shell that asks what may come next, and in which way it wants to be told."""
