"""Takes a GGUF file apart, so that it can be put together wrongly.

It shares no code with the package's reader, and it reads only sound files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

ARRAY, STRING = 9, 8
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
"""struct's code for each scalar type; a boolean is a byte."""


@dataclass
class Entry:
    """A metadata entry; ``body`` is the bytes after its type."""

    key: bytes
    kind: int
    body: bytes


@dataclass
class Record:
    """A record of the tensor table, with dimensions in the file's order."""

    name: bytes
    dims: list[int]
    kind: int
    offset: int


@dataclass
class Image:
    """The parts of a file. A count that is set is written instead of the true one."""

    order: str
    version: int
    entries: list[Entry]
    records: list[Record]
    data: bytearray
    alignment: int = 32
    n_entries: int | None = None
    n_records: int | None = None
    n_dims: dict[int, int] = field(default_factory=dict)

    def pack(self, layout: str, *values: float) -> bytes:
        """``values`` in the file's byte order."""
        return struct.pack(self.order + layout, *values)

    def string(self, raw: bytes) -> bytes:
        """A string with its length before it."""
        return self.pack("Q", len(raw)) + raw

    def content(self) -> bytes:
        """The file."""
        out = bytearray(b"GGUF" + self.pack(
            "IQQ", self.version, len(self.records) if self.n_records is None else self.n_records,
            len(self.entries) if self.n_entries is None else self.n_entries))
        for entry in self.entries:
            out += self.string(entry.key) + self.pack("I", entry.kind) + entry.body
        for i, r in enumerate(self.records):
            out += self.string(r.name) + self.pack("I", self.n_dims.get(i, len(r.dims)))
            out += self.pack(f"{len(r.dims)}Q", *(n % 2**64 for n in r.dims))
            out += self.pack("IQ", r.kind % 2**32, r.offset % 2**64)
        return bytes(out) + bytes(-len(out) % self.alignment) + bytes(self.data)


class _Reader:
    def __init__(self, raw: bytes, order: str) -> None:
        self.raw, self.order, self.pos = raw, order, 4

    def take(self, layout: str) -> tuple[int, ...]:
        layout = self.order + layout
        values = struct.unpack_from(layout, self.raw, self.pos)
        self.pos += struct.calcsize(layout)
        return values

    def string(self) -> bytes:
        (n,) = self.take("Q")
        self.pos += n
        return self.raw[self.pos - n:self.pos]

    def body(self, kind: int) -> bytes:
        start = self.pos
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, n = self.take("IQ")
            if item in CODES:
                self.pos += n * struct.calcsize("<" + CODES[item])
            else:
                for _ in range(n):
                    self.body(item)
        else:
            self.take(CODES[kind])
        return self.raw[start:self.pos]


def parse(raw: bytes) -> Image:
    """The parts of a sound file."""
    order = "<" if struct.unpack_from("<I", raw, 4)[0] < 256 else ">"
    reader = _Reader(raw, order)
    version, n_records, n_entries = reader.take("IQQ")
    entries = []
    for _ in range(n_entries):
        key, (kind,) = reader.string(), reader.take("I")
        entries.append(Entry(key, kind, reader.body(kind)))
    records = []
    for _ in range(n_records):
        name, (n_dims,) = reader.string(), reader.take("I")
        dims = list(reader.take(f"{n_dims}Q"))
        records.append(Record(name, dims, *reader.take("IQ")))
    found = [e.body for e in entries if e.key == b"general.alignment"]
    alignment = struct.unpack(order + "I", found[0])[0] if found else 32
    start = -(-reader.pos // alignment) * alignment
    return Image(order, version, entries, records, bytearray(raw[start:]), alignment)
