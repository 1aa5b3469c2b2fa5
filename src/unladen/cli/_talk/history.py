"""The file in which the messages of all conversations are kept, for the arrow keys."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from unladen.cli._notes import note

if TYPE_CHECKING:
    from prompt_toolkit.history import History

VARIABLE: Final = "UNLADEN_HISTORY"
"""The environment variable that names another file; empty: no file is kept."""
MAX_BYTES: Final = 4 << 20
"""The size of a file at which its older half is dropped: some tens of thousands of messages."""
LONGEST: Final = 1 << 16
"""Characters of the longest message that is kept. Longer ones are pasted files."""


def path_of_history() -> Path | None:
    """The file; None where the user wants none."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]).expanduser() if os.environ[VARIABLE] else None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "unladen" / "history"


def history() -> History:
    """The messages of earlier conversations. Where the file can't be used, a note says so, and only
    this conversation's messages are there."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Kept(FileHistory):
        """A file that nobody else can read."""

        def store_string(self, string: str) -> None:
            """See :class:`prompt_toolkit.history.History`."""
            if len(string) > LONGEST:
                return
            try:
                super().store_string(string)
            except OSError as error:
                note(f"the message isn't kept for later conversations: {error}")

    path = path_of_history()
    if path is None:
        return InMemoryHistory()
    try:
        prepare(path)
    except (OSError, ValueError) as error:
        note(f"messages aren't kept for later conversations: {error}")
        return InMemoryHistory()
    return Kept(str(path))


def prepare(path: Path) -> None:
    """Make the file ``path`` if it isn't there, for its owner alone, and drop its older half where
    it has grown too large. Raises :class:`OSError` and :class:`ValueError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        is_large = os.fstat(number).st_size > MAX_BYTES
    finally:
        os.close(number)
    if is_large:
        kept = path.read_bytes()[-MAX_BYTES // 2:]
        part = path.with_name(f"{path.name}.{os.getpid()}")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(kept[kept.find(b"\n#"):])  # a message begins with a line that has its time
        part.replace(path)
