"""Compiled kernels, kept on disk so that later processes don't compile them again.

A file holds one binary. Its name is the hash of all that the binary follows from: the kernel's
text, the options, the compiler with its version, and the chip. A file begins with :data:`MAGIC`,
this hash and the hash of the binary, so that one that isn't whole, or is another's, counts as
absent and is written anew. Processes may share a folder, since a file gets its name when it is
whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

log = logging.getLogger("unladen")

VARIABLE: Final = "UNLADEN_KERNEL_CACHE"
"""The environment variable that names the folder of binaries. Empty: none are kept."""
MOST_BYTES: Final = 512 << 20
"""The most bytes of a folder's files. Those that were used longest ago are removed beyond this."""
MAGIC: Final = b"unladenK"
"""The first bytes of a file."""
SUFFIX, PART_SUFFIX = ".kernel", ".part"
"""Ends of the names of finished files, and of those that are being written."""
STALE_S: Final = 3600
"""Seconds after which an unfinished file counts as abandoned by the process that began it."""
HASH_BYTES: Final = 32
"""Bytes of SHA-256."""
_HEAD_BYTES: Final = len(MAGIC) + 2 * HASH_BYTES


def folder_of_binaries() -> Path | None:
    """The folder that the environment asks for; None where it asks for none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "unladen", "kernels")


class Binaries:
    """The binaries in ``folder``, or none where it is None; at most ``most_bytes`` of them. Threads
    may share it."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.most_bytes = folder, most_bytes
        self._lock = threading.Lock()
        self._n_bytes: int | None = None
        self._has_warned = False

    def get(self, of: Sequence[str], make: Callable[[], bytes]) -> bytes:
        """The binary of ``of``, the texts from which it follows: what the folder has, else what
        ``make`` compiles, which the folder then has. Raises what ``make`` raises."""
        if self.folder is None:
            return make()
        key = _key(of)
        path = self.folder / f"{key.hex()}{SUFFIX}"
        found = _read(path, key)
        if found is None:
            found = make()
            try:
                self._write(path, key, found)
            except OSError as error:
                self._warn(error)
        return found

    def forget(self, of: Sequence[str]) -> None:
        """Remove the binary of ``of``, which a driver refuses."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                (self.folder / f"{_key(of).hex()}{SUFFIX}").unlink()

    def _write(self, path: Path, key: bytes, binary: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A name of its own, readable by this user alone.
        number, part = tempfile.mkstemp(PART_SUFFIX, dir=path.parent)
        try:
            with open(number, "wb") as file:
                file.write(MAGIC + key + hashlib.sha256(binary).digest() + binary)
            os.replace(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        with self._lock:
            self._bound(path, _HEAD_BYTES + len(binary))

    def _bound(self, newest: Path, n_bytes: int) -> None:
        """Remove files until the folder is small enough. Its files are counted at the first call
        and where they seem to be too many."""
        if self._n_bytes is not None:
            self._n_bytes += n_bytes
            if self._n_bytes <= self.most_bytes:
                return
        files = sorted((status.st_mtime, status.st_size, path) for path, status in _files(newest))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.most_bytes:
                break
            if path != newest:
                with contextlib.suppress(FileNotFoundError):  # another process was first
                    path.unlink()
                total -= size
        self._n_bytes = total

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("compiled kernels can't be kept in %s: %s (hint: make room there, or name "
                        "another folder in %s)", self.folder, error.strerror, VARIABLE)


def _key(of: Sequence[str]) -> bytes:
    found = hashlib.sha256()
    for text in of:
        encoded = text.encode()
        found.update(len(encoded).to_bytes(8, "little") + encoded)
    return found.digest()


def _read(path: Path, key: bytes) -> bytes | None:
    """The binary in the file ``path``; None where there is none, or none of ``key``."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.debug("%s can't be read: %s", path, error)
        return None
    binary = data[_HEAD_BYTES:]
    if data[:_HEAD_BYTES] != MAGIC + key + hashlib.sha256(binary).digest():
        log.debug("%s isn't whole, or isn't what its name says", path)
        return None
    with contextlib.suppress(OSError):  # the folder is another user's, or can't be written
        os.utime(path)
    return binary


def _files(newest: Path) -> list[tuple[Path, os.stat_result]]:
    """The finished files beside ``newest``. Removes unfinished ones that nobody writes any more."""
    found = []
    for path in newest.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has just removed it
            status = path.stat()
            if path.suffix == SUFFIX:
                found.append((path, status))
            elif path.suffix == PART_SUFFIX and status.st_mtime < time.time() - STALE_S:
                path.unlink()
    return found
