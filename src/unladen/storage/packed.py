"""Files of weights as a processor's kernels read them fastest: packed once, mapped ever after.

A file holds rows of matrices, each matrix from a whole line on; then what kernels know of these
rows; then the table of both. Numbers of it are little-endian. Imports next to nothing: while pages
are mapped, all else can be.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from unladen._native.gguf import PagesAhead
from unladen.errors import InvalidArgument, UnladenError
from unladen.storage.mapping import FileMapping
from unladen.types import LoadProgress

log = logging.getLogger("unladen")

VARIABLE: Final = "UNLADEN_PACKED_CACHE"
SUFFIX, PART_SUFFIX = ".packed", ".part"
MAGIC: Final = b"unladen1"
END: Final = struct.Struct("<Q8s")
"""Entries of the table before it, and the magic."""
ENTRY: Final = struct.Struct("<9Q")
LINE_BYTES: Final = 64
STALE_S: Final = 24 * 3600
"""Seconds after which an unfinished file counts as abandoned by the process that began it."""
UNUSED_S: Final = 30 * 24 * 3600
"""Seconds after which a copy that no process has mapped is removed to make room for a new one."""


class Rows(NamedTuple):
    """Rows of a file's matrix and how they are packed, an entry of the table: the file's
    :attr:`FileMapping.identity`; where they begin in it and how many bytes they are there and
    packed; bytes of a row and of its second part; how many numbers (float32) kernels know of them;
    1 if every step reads all of them, else 0."""

    file: int
    file_bytes: int
    file_time: int
    offset: int
    n_bytes: int
    row_bytes: int
    rest_bytes: int
    n_known: int
    is_dense: int


class Packed(NamedTuple):
    """Packed rows in a mapped file: ``rows`` uint8, ``known`` float32."""

    rows: memoryview[Any]
    known: memoryview[Any]


Found = tuple[FileMapping, list[Packed]]
"""A copy, and rows of it."""

Pack = Callable[[int], Packed]
"""Packs the rows of this number; what it returns is valid until the next call."""


class PackedCache:
    """Packed copies in ``folder``.

    ``progress`` is called while one is written; what it raises ends that, with nothing left behind.
    ``strict``: that there can't be one is an error, not a warning.
    """

    def __init__(self, folder: Path, *, strict: bool = False,
                 progress: Callable[[LoadProgress], object] | None = None) -> None:
        self.folder = folder
        self._strict = strict
        self._progress = progress
        self._begun: tuple[Path, _Copy, PagesAhead] | None = None
        self._is_used = False

    def begin(self, source: FileMapping) -> None:
        """Map, in the background, what the system has in memory of the copy of ``source`` that was
        used last. :meth:`finish` or :meth:`stop` ends it."""
        for path in self._copies(source.identity, "*"):
            copy = _opened(path)
            if copy is not None:
                ranges = [(at, at + rows.n_bytes) for rows, at, _ in copy.places() if rows.is_dense]
                flat = struct.pack(f"={2 * len(ranges)}Q", *(n for both in ranges for n in both))
                view = memoryview(flat).cast("Q", (len(ranges), 2))
                self._begun = path, copy, PagesAhead(copy.mapping, view)
                return

    def finish(self) -> None:
        """Map what :meth:`begin` hasn't come to yet, with its help. Raises :class:`UnladenError` if
        ``strict`` and nobody wanted packed weights."""
        if self._is_used and self._begun is not None:
            self._begun[2].finish()
            self._begun = None
        self.stop()
        if not self._is_used:
            self._report("nothing is kept packed: what computes here reads weights as they are",
                         "load without packed_cache")

    def stop(self) -> None:
        """End :meth:`begin`."""
        if self._begun is not None:
            self._begun[2].stop()
            self._begun = None

    def get(self, wanted: Sequence[Rows], build: str, pack: Pack) -> Found | None:
        """All of ``wanted`` in one mapped file: an old one that has them, else a new one of what
        ``pack`` makes of them, in their order. ``build``: which kernels read it, a level, a hyphen
        and a number of the layout. None where none can be written; raises :class:`UnladenError` if
        ``strict``."""
        self._is_used = True
        found = self._find(wanted, build)
        if found is None:
            try:
                found = self._write(wanted, build, pack)
            except OSError as error:
                self._report(f"packed weights can't be kept in {self.folder}: {error.strerror}",
                             f"make room there, or name another folder in {VARIABLE}", error)
        return found

    def _report(self, message: str, hint: str, cause: OSError | None = None) -> None:
        if self._strict:
            raise UnladenError(message, hint=hint) from cause
        log.warning("%s (hint: %s)", message, hint)

    def _copies(self, identity: Iterable[int], build: str) -> list[Path]:
        """What was used last comes first; ``build`` may have a star."""
        pattern = f"{_name(identity)}.{build}.*{SUFFIX}"
        return sorted(self.folder.glob(pattern), key=_time_of, reverse=True)

    def _find(self, wanted: Sequence[Rows], build: str) -> Found | None:
        for path in self._copies(wanted[0][:3], build):
            begun = self._begun
            copy = begun[1] if begun is not None and begun[0] == path else _opened(path)
            found = copy and copy.find(wanted)
            if found:
                log.debug("packed weights are mapped from %s", path)
                with contextlib.suppress(PermissionError):  # somebody else keeps the folder
                    os.utime(path)
                return found
        return None

    def _write(self, wanted: Sequence[Rows], build: str, pack: Pack) -> Found | None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._remove_old(wanted, build)
        name = f"{_name(wanted[0][:3])}.{build}.{time.time_ns():x}{SUFFIX}"
        part = self.folder / f"{name}.{os.getpid()}-{threading.get_ident()}{PART_SUFFIX}"
        try:
            with open(part, "xb", opener=_private) as file:
                n_bytes = sum(_in_lines(rows.n_bytes) + 4 * rows.n_known for rows in wanted)
                n_bytes += ENTRY.size * len(wanted) + END.size
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, n_bytes)  # or there is no room
                start, all_known = time.perf_counter(), []

                def tell(done_bytes: int) -> None:
                    if self._progress:
                        seconds = time.perf_counter() - start
                        self._progress(LoadProgress(done_bytes, n_bytes, seconds))
                for i, rows in enumerate(wanted):
                    packed = pack(i)
                    file.write(packed.rows)
                    file.write(bytes(_in_lines(rows.n_bytes) - rows.n_bytes))
                    all_known.append(bytes(packed.known))
                    tell(file.tell())
                file.write(b"".join(all_known))
                file.write(b"".join(ENTRY.pack(*rows) for rows in wanted))
                file.write(END.pack(len(wanted), MAGIC))
                file.flush()
                os.fsync(file.fileno())  # before it has a name under which it is believed
                tell(n_bytes)
            found = self._find(wanted, build)
            if found is None:  # or somebody else was faster
                copy = _named(part, self.folder / name)
                found = copy and copy.find(wanted)
            return found
        finally:
            part.unlink(missing_ok=True)

    def _remove_old(self, wanted: Sequence[Rows], build: str) -> None:
        """What a copy of ``wanted`` replaces: copies of other layouts, of no more than these rows,
        such as were never finished, and what nobody uses."""
        level = build.partition("-")[0]
        for path in self._copies(wanted[0][:3], f"{level}-*"):
            copy = _opened(path)
            is_old = f".{build}." not in path.name or copy is None or set(copy.table) < set(wanted)
            del copy  # what is mapped can't be removed on every system
            if is_old:
                _remove(path)
        for suffix, seconds in ((PART_SUFFIX, STALE_S), (SUFFIX, UNUSED_S)):
            for path in self.folder.glob(f"*{suffix}"):
                if _time_of(path) < time.time() - seconds:
                    _remove(path)


def packed_cache(wanted: bool | str | os.PathLike[str], source: FileMapping | None, *,
                 in_place: bool, strict: bool,
                 progress: Callable[[LoadProgress], object] | None) -> PackedCache | None:
    """That of a model whose ``packed_cache`` is ``wanted``, begun for ``source``; ``in_place``:
    weights are used where they are mapped. Raises :class:`InvalidArgument` where they aren't."""
    if wanted is False:
        return None
    if not in_place:
        raise InvalidArgument("packed_cache maps packed weights, and these are to be copied or "
                              "locked", hint="load without use_mmap=False and use_mlock, or without"
                                             " packed_cache")
    folder = folder_of_copies() if wanted is True else Path(wanted)
    cache = PackedCache(folder, strict=strict, progress=progress)
    if source is not None:
        cache.begin(source)
    return cache


def folder_of_copies() -> Path:
    """Where copies are kept if nothing else is said."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(base, "unladen", "packed"))


def _name(identity: Iterable[int]) -> str:
    return "-".join(f"{number:x}" for number in identity)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _named(part: Path, path: Path) -> _Copy | None:
    """The finished file ``part``, called ``path`` from now on."""
    if sys.platform == "win32":  # which doesn't rename what is mapped
        part.rename(path)
        return _opened(path)
    copy = _opened(part)  # before anybody can remove it for another
    part.rename(path)
    return copy


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError as error:  # somebody else's, or mapped on a system that keeps it then
        log.debug("%s stays: %s", path, error)


def _time_of(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):  # somebody has just removed it
        return path.stat().st_mtime
    return 0.0


def _in_lines(n_bytes: int) -> int:
    return (n_bytes + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


class _Copy(NamedTuple):
    mapping: FileMapping
    table: list[Rows]

    def places(self) -> Iterator[tuple[Rows, int, int]]:
        """Rows, where these begin, and where what is known of them does."""
        at, known = 0, sum(_in_lines(rows.n_bytes) for rows in self.table)
        for rows in self.table:
            yield rows, at, known
            at += _in_lines(rows.n_bytes)
            known += 4 * rows.n_known

    def find(self, wanted: Sequence[Rows]) -> Found | None:
        """Where ``wanted`` lie; None if not all of them do."""
        view, places = memoryview(self.mapping), {
            rows: (at, known) for rows, at, known in self.places()}
        if not places.keys() >= set(wanted):
            return None
        return self.mapping, [
            Packed(view[at:at + rows.n_bytes], view[known:known + 4 * rows.n_known].cast("f"))
            for rows, (at, known) in ((rows, places[rows]) for rows in wanted)]


def _opened(path: Path) -> _Copy | None:
    """None where it isn't whole, or gone."""
    try:
        with open(path, "rb") as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes < END.size:
                return None
            mapping = FileMapping(file.fileno())
    except OSError as error:
        log.debug("%s can't be read: %s", path, error)
        return None
    n_entries, magic = END.unpack_from(mapping, n_bytes - END.size)
    first = n_bytes - END.size - ENTRY.size * n_entries
    if magic == MAGIC and first >= 0:
        table = [Rows(*ENTRY.unpack_from(mapping, first + i * ENTRY.size))
                 for i in range(n_entries)]
        if sum(_in_lines(rows.n_bytes) + 4 * rows.n_known for rows in table) == first:
            return _Copy(mapping, table)
    log.debug("%s isn't whole", path)
    return None
