"""The command line: one file per command, over the front door."""

import os

COMPLETE_VARIABLE = "_UNLADEN_COMPLETE"
"""Set by a shell that asks what may come next, and in which way it wants to be told."""


def program() -> None:
    """The console script: :func:`unladen.cli.app.program`, and the end of the process where Ctrl-C
    comes while that is imported."""
    try:
        from unladen.cli.app import program as run
    except KeyboardInterrupt:
        os._exit(130)
    run()
