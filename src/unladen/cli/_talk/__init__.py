"""A conversation in a terminal, or line by line through a pipe.

``conversation.py`` takes turns. ``lines.py`` and ``editor.py`` read what the user says,
``screen.py`` shows what the model answers. ``slash.py`` has the commands that begin with a slash.
"""

import sys


def has_terminal() -> bool:
    """Whether stdin and stdout are a terminal, at which a person can talk."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
