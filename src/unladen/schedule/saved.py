"""A sequence's keys, values and recurrent state as bytes, and back.

The bytes are a magic, the length of a JSON header, a check sum of all that follows, the header, and
the arrays that it lists: for each cache the K and V of every block, then each node's recurrent
state. Nothing in them says how large the cache they came from was, or where it lay; other types of
keys and values are converted.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Buffer, PlacedKV
from unladen.errors import InvalidArgument, UnsupportedQuant
from unladen.graph.ops import get_op
from unladen.quants import dequantize, get, quantize
from unladen.schedule.carry import rotations
from unladen.schedule.plan import Plan
from unladen.types import NO_SLOT

Bytes = npt.NDArray[np.uint8]

MAGIC = b"unladen state 1\n"
PREFIX = struct.Struct("<II")


def pack(plan: Plan, tokens: Sequence[int], blocks: Sequence[int], slot: int) -> bytes:
    """The state of ``tokens``, which fill ``blocks``, with their recurrent state in ``slot``."""
    layout, parts = plan.draft.layout, []
    for _, kv in sorted(plan.kv.items()):
        for buffer in (kv.k, kv.v):
            n = buffer.nbytes // layout.n_blocks
            parts += [_read(buffer, n, block * n) for block in blocks]
    geometry = _geometry(plan)
    for name, size in geometry["slots"] if slot != NO_SLOT else []:
        parts.append(_read(plan.slots[name], 4 * size, 4 * size * slot))
    header = json.dumps({**geometry, "tokens": list(tokens), "k_type": layout.k_type,
                         "v_type": layout.v_type}).encode()
    body = header + b"".join(parts)
    return MAGIC + PREFIX.pack(len(header), zlib.crc32(body)) + body


@dataclass(frozen=True, slots=True)
class SavedState:
    """What :func:`pack` gave, looked through: ``header``, and the arrays' bytes ``payload``."""

    header: dict[str, Any]
    payload: Bytes

    @classmethod
    def read(cls, data: bytes) -> SavedState:
        """Raises :class:`InvalidArgument` for anything else."""
        damaged = InvalidArgument("these bytes are no saved state, or damaged",
                                  hint="give what save_state returned, unchanged")
        start = len(MAGIC) + PREFIX.size
        if not data.startswith(MAGIC) or len(data) < start:
            raise damaged
        n, crc = PREFIX.unpack_from(data, len(MAGIC))
        if crc != zlib.crc32(data[start:]):
            raise damaged
        try:
            header = json.loads(data[start:start + n])
            sizes = [get(header[key]).block_size for key in ("k_type", "v_type")]
            sound = all(type(t) is int for t in header["tokens"]) and all(
                dim % size == 0 for row in header["kv"]
                for dim, size in zip(row[2:], sizes, strict=True))
            sound = sound and {"slots", "block_tokens", "rotations"} <= set(header)
        except (ValueError, KeyError, TypeError, RecursionError, UnsupportedQuant):
            raise damaged from None
        if not sound:
            raise damaged
        return cls(header, np.frombuffer(data, np.uint8, offset=start + n))

    @property
    def tokens(self) -> list[int]:
        """The tokens whose state it is."""
        return list(self.header["tokens"])

    def check(self, plan: Plan) -> None:
        """Raise :class:`InvalidArgument` where it isn't of a model like that of ``plan``."""
        if any(self.header[key] != wanted for key, wanted in _geometry(plan).items()):
            raise InvalidArgument(
                "the state is of another model, or of one whose heads are divided otherwise, or "
                "whose keys are turned otherwise because its context is longer or shorter",
                hint="load it into the model that it was saved from")

    def put(self, plan: Plan, blocks: Sequence[int], slot: int) -> None:
        """Write it to ``blocks`` and ``slot``; raises :class:`InvalidArgument`."""
        layout, old = plan.draft.layout, (self.header["k_type"], self.header["v_type"])
        caches = [(kv, *cache) for _, kv in sorted(plan.kv.items()) for cache in (
            (kv.k, kv.spec.k_dim, old[0], layout.k_type),
            (kv.v, kv.spec.v_dim, old[1], layout.v_type))]
        n_rows = [layout.block_tokens * len(blocks) * kv.spec.n_kv_heads for kv, *_ in caches]
        sizes = [n * get(saved).row_bytes(dim)
                 for n, (_, _, dim, saved, _) in zip(n_rows, caches, strict=True)]
        states = self.header["slots"] if slot != NO_SLOT else []
        if sum(sizes) + 4 * sum(size for _, size in states) != len(self.payload):
            raise InvalidArgument("the state lacks some of its bytes, or has too many",
                                  hint="give what save_state returned, unchanged")
        at = 0
        for n, size, (kv, buffer, dim, saved, now) in zip(n_rows, sizes, caches, strict=True):
            part = self.payload[at:at + size]
            if saved != now:
                part = quantize(now, dequantize(saved, part, (n, dim))).reshape(-1)
            _write(kv, buffer, blocks, part)
            at += size
        for name, size in states:
            buffer = plan.slots[name]
            backend_of(buffer.device.name).write(buffer, self.payload[at:at + 4 * size],
                                                 4 * size * slot)
            at += 4 * size


def _geometry(plan: Plan) -> dict[str, Any]:
    sizes = {n.name: get_op(n.op).state_size(n) for n in plan.draft.graph.nodes}
    return {"block_tokens": plan.draft.layout.block_tokens,
            "rotations": rotations(plan.draft.graph),
            "kv": [[layer, kv.spec.n_kv_heads, kv.spec.k_dim, kv.spec.v_dim]
                   for layer, kv in sorted(plan.kv.items())],
            "slots": [[name, sizes[name]] for name in sorted(plan.slots)]}


def _write(kv: PlacedKV, buffer: Buffer, blocks: Sequence[int], data: Bytes) -> None:
    n = buffer.nbytes // kv.layout.n_blocks
    for i, block in enumerate(blocks):
        backend_of(buffer.device.name).write(buffer, data[i * n:(i + 1) * n], block * n)


def _read(buffer: Buffer, nbytes: int, offset: int) -> bytes:
    backend = backend_of(buffer.device.name)
    backend.sync(buffer.device)
    return backend.read(buffer, nbytes, offset).tobytes()
