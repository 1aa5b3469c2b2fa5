"""Copies of weights as a processor's kernels read them fastest: packed once, mapped in later runs.

A copy is a file. It holds the packed rows of matrices, each matrix from a multiple of
:data:`LINE_BYTES` on; then the known numbers of these rows (``backends/cpu/csrc/README.md``); then
a table with an entry for each matrix, in little-endian numbers. This module imports little, so that
pages are mapped while all else is imported.
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
"""The environment variable that names the folder of copies."""
SUFFIX, PART_SUFFIX = ".packed", ".part"
"""Ends of the names of finished copies, and of those that are being written."""
MAGIC: Final = b"unladen1"
"""The last bytes of a finished copy."""
END: Final = struct.Struct("<Q8s")
"""The end of a copy: the number of entries in the table before it, and the magic."""
ENTRY: Final = struct.Struct("<9Q")
"""An entry of the table: the fields of :class:`Rows`."""
LINE_BYTES: Final = 64
"""Each matrix begins at a multiple of this, the size of a cache line."""
STALE_S: Final = 24 * 3600
"""Seconds after which an unfinished file counts as abandoned by the process that began it."""
UNUSED_S: Final = 30 * 24 * 3600
"""Seconds after which a copy that no process has mapped is removed to make room for a new one."""


class Rows(NamedTuple):
    """Rows of a file's matrix and how they are packed; an entry of the table.

    * ``file``, ``file_bytes``, ``file_time``: the file's :attr:`FileMapping.identity`.
    * ``offset``: the byte of the file at which the rows begin.
    * ``n_bytes``: bytes of the rows, as many in the file as packed.
    * ``row_bytes``: bytes of a row.
    * ``rest_bytes``: bytes of the second part of a divided row.
    * ``n_known``: how many known numbers (float32) belong to the rows.
    * ``is_dense``: 1 if every step reads all of the rows, else 0.
    """

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
    """Packed rows and their known numbers: ``rows`` uint8, ``known`` float32."""

    rows: memoryview[Any]
    known: memoryview[Any]


Found = tuple[FileMapping, list[Packed]]
"""The mapping of a copy, and the packed rows that were looked for in it."""

Pack = Callable[[int], Packed]
"""Packs the rows with this place in a list of :class:`Rows`. The result is valid until the next
call."""


class PackedCache:
    """Packed copies in ``folder``.

    * ``strict``: if there can't be a copy, an error is raised instead of a warning logged.
    * ``progress``: called while a copy is written. An exception that it raises stops this, and the
      unfinished file is removed.
    """

    def __init__(self, folder: Path, *, strict: bool = False,
                 progress: Callable[[LoadProgress], object] | None = None) -> None:
        self.folder = folder
        self._strict = strict
        self._progress = progress
        self._begun: tuple[Path, _Copy, PagesAhead] | None = None
        self._is_used = False

    def begin(self, source: FileMapping) -> None:
        """Begin to map, in the background, pages of the copy of ``source`` that was used last,
        those that the system has in memory. :meth:`finish` or :meth:`stop` ends this."""
        for path in self._copies(source.identity, "*"):
            copy = _opened(path)
            if copy is not None:
                ranges = [(at, at + rows.n_bytes) for rows, at, _ in copy.places() if rows.is_dense]
                flat = struct.pack(f"={2 * len(ranges)}Q", *(n for both in ranges for n in both))
                view = memoryview(flat).cast("Q", (len(ranges), 2))
                self._begun = path, copy, PagesAhead(copy.mapping, view)
                return

    def finish(self) -> None:
        """Map the pages that are left of :meth:`begin`, together with its thread. Raises
        :class:`UnladenError` if ``strict`` and :meth:`get` wasn't called."""
        if self._is_used and self._begun is not None:
            self._begun[2].finish()
            self._begun = None
        self.stop()
        if not self._is_used:
            self._report("nothing is kept packed: the kernels in use read weights as they are in "
                         "the file", "load without packed_cache")

    def stop(self) -> None:
        """Stop the mapping that :meth:`begin` started."""
        if self._begun is not None:
            self._begun[2].stop()
            self._begun = None

    def get(self, wanted: Sequence[Rows], build: str, pack: Pack) -> Found | None:
        """All of ``wanted`` in one copy, or None where none can be written. Raises
        :class:`UnladenError` instead if ``strict``.

        * ``wanted``: rows of one file.
        * ``build``: the kernels that read the copy: a level, a hyphen and the number of a layout.
        * ``pack``: called for each of ``wanted``, in their order, if no copy has them all.
        """
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
        """The copies of the file ``identity``, the last used first. ``build`` may have a star."""
        pattern = f"{_name(identity)}.{build}.*{SUFFIX}"
        return sorted(self.folder.glob(pattern), key=_time_of, reverse=True)

    def _find(self, wanted: Sequence[Rows], build: str) -> Found | None:
        for path in self._copies(wanted[0][:3], build):
            begun = self._begun
            copy = begun[1] if begun is not None and begun[0] == path else _opened(path)
            found = copy and copy.find(wanted)
            if found:
                log.debug("packed weights are mapped from %s", path)
                with contextlib.suppress(PermissionError):  # the folder is another user's
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
                    os.posix_fallocate(file.fileno(), 0, n_bytes)  # a full disk is noticed now
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
                os.fsync(file.fileno())  # a file with the final name must be whole
                tell(n_bytes)
            found = self._find(wanted, build)
            if found is None:  # else another process has written the same copy meanwhile
                copy = _named(part, self.folder / name)
                found = copy and copy.find(wanted)
            return found
        finally:
            part.unlink(missing_ok=True)

    def _remove_old(self, wanted: Sequence[Rows], build: str) -> None:
        """Remove the copies that a new copy of ``wanted`` replaces: those in other layouts, and
        those with a part of these rows. Also remove old unfinished files and unused copies."""
        level = build.partition("-")[0]
        for path in self._copies(wanted[0][:3], f"{level}-*"):
            copy = _opened(path)
            is_old = f".{build}." not in path.name or copy is None or set(copy.table) < set(wanted)
            del copy  # some systems don't remove a mapped file
            if is_old:
                _remove(path)
        for suffix, seconds in ((PART_SUFFIX, STALE_S), (SUFFIX, UNUSED_S)):
            for path in self.folder.glob(f"*{suffix}"):
                if _time_of(path) < time.time() - seconds:
                    _remove(path)


def packed_cache(wanted: bool | str | os.PathLike[str], source: FileMapping | None, *,
                 in_place: bool, strict: bool,
                 progress: Callable[[LoadProgress], object] | None) -> PackedCache | None:
    """The cache for a model, or None. Raises :class:`InvalidArgument`.

    * ``wanted``: the model's parameter ``packed_cache``: False for none, True for the usual folder,
      or a folder.
    * ``source``: the model's file, if it is mapped already; the cache then begins to map its copy.
    * ``in_place``: whether weights are used where they are mapped, which the cache needs.
    * ``strict``, ``progress``: see :class:`PackedCache`.
    """
    if wanted is False:
        return None
    if not in_place:
        raise InvalidArgument("packed_cache uses weights where they are mapped, and use_mmap=False "
                              "or use_mlock copies or locks them",
                              hint="load without these two, or without packed_cache")
    folder = folder_of_copies() if wanted is True else Path(wanted)
    cache = PackedCache(folder, strict=strict, progress=progress)
    if source is not None:
        cache.begin(source)
    return cache


def folder_of_copies() -> Path:
    """The folder of copies for ``packed_cache=True``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(base, "unladen", "packed"))


def _name(identity: Iterable[int]) -> str:
    return "-".join(f"{number:x}" for number in identity)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _named(part: Path, path: Path) -> _Copy | None:
    """Rename the finished file ``part`` to ``path`` and open it."""
    if sys.platform == "win32":  # Windows doesn't rename a mapped file
        part.rename(path)
        return _opened(path)
    copy = _opened(part)  # under its final name another process could remove it at once
    part.rename(path)
    return copy


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError as error:  # another user's, or mapped on a system that keeps it then
        log.debug("%s stays: %s", path, error)


def _time_of(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
        return path.stat().st_mtime
    return 0.0


def _in_lines(n_bytes: int) -> int:
    return (n_bytes + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


class _Copy(NamedTuple):
    mapping: FileMapping
    table: list[Rows]

    def places(self) -> Iterator[tuple[Rows, int, int]]:
        """Each entry of the table, the offset of its rows, and the offset of its known numbers."""
        at, known = 0, sum(_in_lines(rows.n_bytes) for rows in self.table)
        for rows in self.table:
            yield rows, at, known
            at += _in_lines(rows.n_bytes)
            known += 4 * rows.n_known

    def find(self, wanted: Sequence[Rows]) -> Found | None:
        """``wanted`` in this copy, or None if some are missing."""
        view, places = memoryview(self.mapping), {
            rows: (at, known) for rows, at, known in self.places()}
        if not places.keys() >= set(wanted):
            return None
        return self.mapping, [
            Packed(view[at:at + rows.n_bytes], view[known:known + 4 * rows.n_known].cast("f"))
            for rows, (at, known) in ((rows, places[rows]) for rows in wanted)]


def _opened(path: Path) -> _Copy | None:
    """The copy ``path``; None where it isn't whole or can't be read."""
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
