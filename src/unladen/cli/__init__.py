"""The command line: one file per command. Commands use the package's public interface."""

import os

COMPLETE_VARIABLE = "_UNLADEN_COMPLETE"
"""The environment variable that a shell sets when it asks for completions; its value says in which
form it wants them."""


def program() -> None:
    """The console script. Runs :func:`unladen.cli.app.program`, and ends the process where Ctrl-C
    comes while that module is imported."""
    try:
        from unladen.cli.app import program as run
    except KeyboardInterrupt:
        os._exit(130)
    run()
