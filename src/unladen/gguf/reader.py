"""Opens GGUF files: one, or all the parts of a split model."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from unladen._native import gguf as native
from unladen.errors import GGUFError, ModelNotFound
from unladen.gguf.cursor import TRUNCATED, Cursor
from unladen.gguf.layout import MAGIC, VERSIONS, ByteOrder, order_char
from unladen.gguf.metadata import Metadata, entry_count, read_metadata
from unladen.gguf.others import HEAD_BYTES, STILL_LOADING, is_unfinished, what_is
from unladen.gguf.tensors import SMALLEST_RECORD, Part, TensorInfo, read_tensors
from unladen.storage.mapping import FileMapping, map_file
from unladen.types import MAIN

_PART_NAME: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
"""The name of a part of a split model, as llama.cpp writes it."""
_N_DROPPING: Final = 2
"""Threads that give back a file's pages. More would wait for one another in the kernel."""


class GGUFFile:
    """An open model: metadata of its first file, tensors of all its files.

    ``path`` is the first of ``paths``. The files are mapped read-only; views of them (tensor data,
    metadata arrays) keep their mapping alive, also after :meth:`close`. ``key`` names the model
    among several whose weights one plan takes.
    """

    def __init__(self, parts: list[_OpenPart], key: str = MAIN) -> None:
        first = parts[0]
        self.key = key
        self.paths: tuple[str, ...] = tuple(p.part.path for p in parts)
        self.path: str = first.part.path
        self.version: int = first.version
        self.byteorder: ByteOrder = first.part.byteorder
        self.metadata: Metadata = first.metadata
        self.tensors: Mapping[str, TensorInfo] = {
            name: info for p in parts for name, info in p.tensors.items()}
        self._parts = [p.part for p in parts]
        self._ahead: list[native.PagesAhead] = []

    def map_ahead(self, begun: native.PagesAhead | None = None) -> None:
        """Start to map, in background threads, the pages that the system has in memory already, so
        that a later read of a tensor in place doesn't wait for it.

        Expert tensors are left out: a step reads few of them. ``begun`` does this for the whole
        first file already. :meth:`finish_mapping` or :meth:`close` ends the work.
        """
        if begun is not None and all(len(t.shape) < 3 for t in self.tensors.values()):
            self._ahead.append(begun)
        elif begun is not None:
            begun.stop()
        for i, part in enumerate(self._parts):
            if part.buffer is not None and i >= len(self._ahead):
                whole = [t for t in self.tensors.values() if t.file_index == i and len(t.shape) < 3]
                self._ahead.append(native.PagesAhead(part.buffer, _ranges(whole)))

    def finish_mapping(self) -> None:
        """Map the rest of what :meth:`map_ahead` has begun, together with its threads."""
        for ahead in self._ahead:
            ahead.finish()
        self._ahead = []

    def drop_header(self) -> None:
        """Give the header's pages and the heap memory that reading it has freed back to the
        system. A later read of metadata maps the pages it needs again."""
        for i, part in enumerate(self._parts):
            offsets = [t.offset for t in self.tensors.values() if t.file_index == i]
            end = min(offsets, default=None)
            if part.mapping is not None:
                part.mapping.in_small_pages(end)
            _drop(part, end, 1)
        self.metadata.forget_strings()
        native.trim_heap()

    def close(self) -> None:
        """Close the files. Each stays mapped until its last view is gone."""
        for ahead in self._ahead:
            ahead.stop()
        self._ahead = []
        for part in self._parts:
            # Unmapping alone would take twice as long. A view that is left maps its pages again.
            _drop(part, None, _N_DROPPING)
            part.buffer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _drop(part: Part, end: int | None, n_threads: int) -> None:
    """Give back the pages of ``part`` up to byte ``end``, by default all. A mapping whose pages
    were replaced by moved weights keeps them."""
    buffer = part.buffer  # another thread may be closing the file, too
    if buffer is not None and part.mapping is not None:
        with part.mapping.guard:
            if not part.mapping.is_replaced:
                native.drop_pages(buffer[:end], n_threads)


def _ranges(tensors: Iterable[TensorInfo]) -> npt.NDArray[np.uint64]:
    """Where runs of neighbouring ``tensors`` begin and end in the file, uint64 [n, 2]."""
    found: list[list[int]] = []
    for t in sorted(tensors, key=lambda t: t.offset):
        if not found or t.offset - found[-1][1] >= mmap.PAGESIZE:
            found.append([t.offset, t.offset])
        found[-1][1] = t.offset + t.nbytes
    return np.array(found, np.uint64).reshape(-1, 2)


class _OpenPart:
    """One file, read and checked on its own."""

    def __init__(self, path: str, file_index: int, mapping: FileMapping) -> None:
        byteorder, self.version = _preamble(path, mapping)
        cursor = Cursor(path, mapping, order_char(byteorder), pos=8)
        self.part = Part(path, byteorder, cursor.bytes, mapping)
        try:
            n_tensors = cursor.count(SMALLEST_RECORD, "tensors")
            self.metadata = read_metadata(cursor, entry_count(cursor))
            self.tensors = read_tensors(cursor, n_tensors, self.metadata, self.part, file_index)
        except GGUFError as error:
            if error.hint == TRUNCATED and is_unfinished(path):
                error.hint = STILL_LOADING
            raise

    def split(self, field: str) -> int | None:
        """The number at ``split.<field>``; None where the key is missing."""
        key = f"split.{field}"
        value = self.metadata.get(key)
        if value is not None and (type(value) is not int or value < 0):
            raise self.error(f"{key} is {value!r}, not a count", key)
        return value

    def error(self, message: str, key: str, hint: str = "") -> GGUFError:
        offset = self.metadata.offset_of(key) if key in self.metadata else 0
        return GGUFError(message, path=self.part.path, offset=offset, hint=hint)


def open_gguf(path: str | os.PathLike[str], mapping: FileMapping | None = None,
              key: str = MAIN) -> GGUFFile:
    """Open the model at ``path``. Any part of a split model opens all parts. ``mapping`` is the
    mapping of ``path`` if the caller has one; ``key`` becomes :attr:`GGUFFile.key`.

    Everything but the tensor data is checked here. Raises :class:`ModelNotFound` where there is no
    such file or a part is missing, :class:`GGUFError` where one is malformed, and
    :class:`UnladenError` where the system refuses to read it.
    """
    name = os.fspath(path)
    opened = _OpenPart(name, 0, map_file(name) if mapping is None else mapping)
    n_parts = opened.split("count") or 1
    if n_parts == 1:
        return GGUFFile([opened], key)
    parts = []
    for index, part_path in enumerate(_part_paths(opened, n_parts)):
        if not os.path.exists(part_path):
            raise ModelNotFound(f"part {index + 1} of {n_parts} is missing: {part_path}",
                                hint="put all parts of the model into the same folder")
        part = _OpenPart(part_path, index, map_file(part_path))
        for field, expected in (("no", index), ("count", n_parts)):
            if part.split(field) != expected:
                raise part.error(f"split.{field} is {part.split(field)}, its name says {expected}",
                                 f"split.{field}", "the file was renamed: give it its own name")
        parts.append(part)
    _check_parts(parts)
    return GGUFFile(parts, key)


def _preamble(path: str, mapping: mmap.mmap) -> tuple[ByteOrder, int]:
    if mapping[:4] != MAGIC:
        found = what_is(mapping[:HEAD_BYTES], len(mapping), path)
        raise GGUFError(f"not a GGUF file, but {found.what}", path=path, hint=found.hint)
    orders: tuple[ByteOrder, ...] = ("little", "big")
    for byteorder in orders:
        version = int.from_bytes(mapping[4:8], byteorder)
        if version in VERSIONS:
            return byteorder, version
    version = int.from_bytes(mapping[4:8], "little")
    hint = ("the file is from before August 2023: convert the model again" if version == 1
            else "a newer unladen may read it")
    raise GGUFError(f"GGUF version {version} isn't supported, only 2 and 3", path=path, offset=4,
                    hint=hint)


def _part_paths(opened: _OpenPart, n_parts: int) -> list[str]:
    path = Path(opened.part.path)
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != n_parts:
        raise opened.error(f"is one of {n_parts} parts, but isn't named so", "split.count",
                           f"name the parts like model-00001-of-{n_parts:05d}.gguf")
    return [str(path.with_name(f"{match['stem']}-{number:05d}-of-{n_parts:05d}.gguf"))
            for number in range(1, n_parts + 1)]


def _check_parts(parts: list[_OpenPart]) -> None:
    owner: dict[str, str] = {}
    for part in parts:
        for name in part.tensors:
            if name in owner:
                raise part.error(f"the tensor {name!r} is in {owner[name]} too", "split.no")
            owner[name] = part.part.path
    expected = parts[0].split("tensors.count")
    if expected is not None and expected != len(owner):
        raise parts[0].error(f"split.tensors.count is {expected}, the parts hold {len(owner)}",
                             "split.tensors.count", "fetch all parts again")
