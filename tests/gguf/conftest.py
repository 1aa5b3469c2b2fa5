"""Makes files for the tests of GGUF: unused paths, and files built byte by byte."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


class Bytes:
    """Builds files that no writer would write. ``order`` is "<" or ">"."""

    def __init__(self, folder: Path, order: str = "<") -> None:
        self.folder = folder
        self.order = order

    def pack(self, layout: str, *values: float) -> bytes:
        return struct.pack(self.order + layout, *values)

    def string(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return self.pack("Q", len(raw)) + raw

    def entry(self, key: str | bytes, value_type: int, body: bytes) -> bytes:
        return self.string(key) + self.pack("I", value_type) + body

    def array(self, item_type: int, n: int, body: bytes) -> bytes:
        return self.pack("IQ", item_type, n) + body

    def tensor(self, name: str | bytes, dims: Sequence[int], type_id: int = 0, offset: int = 0,
               n_dims: int | None = None) -> bytes:
        count = len(dims) if n_dims is None else n_dims
        return self.string(name) + self.pack(f"I{len(dims)}QIQ", count, *dims, type_id, offset)

    def content(self, entries: Sequence[bytes] = (), tensors: Sequence[bytes] = (),
                data: int = 0, *, version: int = 3, n_entries: int | None = None,
                n_tensors: int | None = None, alignment: int = 32) -> bytes:
        head = b"GGUF" + self.pack(
            "IQQ", version, len(tensors) if n_tensors is None else n_tensors,
            len(entries) if n_entries is None else n_entries)
        head += b"".join(entries) + b"".join(tensors)
        return head + bytes(-len(head) % alignment if data else 0) + bytes(data)

    def file(self, content: bytes, name: str = "hostile.gguf") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@pytest.fixture
def little(tmp_path: Path) -> Bytes:
    return Bytes(tmp_path)


@pytest.fixture
def big(tmp_path: Path) -> Bytes:
    return Bytes(tmp_path, ">")


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A path that wasn't used before, for examples that share one test."""
    folder = tmp_path_factory.mktemp("gguf")
    numbers = itertools.count()
    return lambda: folder / f"{next(numbers)}.gguf"
