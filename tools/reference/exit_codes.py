"""The page about exit codes, made from the table that decides them."""

from __future__ import annotations

from reference.markdown import table
from unladen.cli._ending import MEANINGS

HEAD = """# Exit codes

`unladen` writes data to stdout and everything else to stderr. An error is one line there,
`error: ...`, and usually a second one that says what to try, `hint: ...`. Every command ends with
one of these codes:

"""
TAIL = """
A code is 0 only if everything was written: a full disk or a closed stdout is an error. A message
that can't be written because stderr is closed or full doesn't change the exit code.

After SIGINT, SIGTERM and SIGHUP half-written files are removed first. A second SIGTERM ends the
process at once. A signal that is ignored when `unladen` starts, such as SIGHUP under `nohup`, stays
ignored.

`unladen --debug COMMAND` shows where an error comes from, with Python's traceback and exit code 1.
"""


def page() -> str:
    """The page's text."""
    return HEAD + table(("code", "meaning"), (
        (f"{code.value}", meaning) for code, meaning in MEANINGS.items())) + TAIL
