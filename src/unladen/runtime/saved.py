"""A sequence's keys, values and recurrent state as bytes, and back.

The bytes are a magic, the length of a JSON header, a check sum of all that follows, the header, and
the arrays that it lists: for each cache the K and V of every block, the last of which may be filled
in part, then each node's recurrent state, at a checkpoint if there is one, and at the end. They
don't depend on the size of the cache and its device; other types of keys and values are converted.
A state belongs to one graph.
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
from unladen.runtime.carry import rotations
from unladen.runtime.plan import Plan
from unladen.types import NO_SLOT

Bytes = npt.NDArray[np.uint8]

Blocks = Sequence[int] | npt.NDArray[np.int32]

MAGIC = b"unladen state 1\n"
"""What a saved state begins with."""

PREFIX = struct.Struct("<II")
"""What follows the magic: bytes of the header, and the check sum (CRC-32) of all that follows."""


def pack(plan: Plan, tokens: Sequence[int], blocks: Blocks, slot: int,
         checkpoint: tuple[int, int] = (0, NO_SLOT)) -> bytes:
    """The state of ``tokens``, whose keys and values are in the first of ``blocks``, with their
    recurrent state in ``slot``. ``checkpoint``: a number of tokens, and the slot of the recurrent
    state after these."""
    layout, parts = plan.blueprint.layout, []
    used = [int(b) for b in blocks[:-(-len(tokens) // layout.block_tokens)]]
    rest = len(tokens) % layout.block_tokens
    for _, kv in sorted(plan.kv.items()):
        for buffer in (kv.k, kv.v):
            n = buffer.nbytes // layout.n_blocks
            arrays = [_read(buffer, n, block * n) for block in used]
            if rest:
                # Behind the tokens there may be rows of other requests: don't save them.
                arrays[-1] = arrays[-1].copy()
                arrays[-1].reshape(kv.spec.n_kv_heads, layout.block_tokens, -1)[:, rest:] = 0
            parts += arrays
    geometry = _geometry(plan)
    n_before, slot_before = checkpoint
    states = [s for s in (slot_before, slot) if s != NO_SLOT] if slot != NO_SLOT else []
    for where in states:
        parts += [_read(plan.slots[name], 4 * size, 4 * size * where)
                  for name, size in geometry["slots"]]
    header = json.dumps({**geometry, "tokens": list(tokens), "k_type": layout.k_type,
                         "v_type": layout.v_type,
                         "checkpoint": n_before if len(states) > 1 else 0}).encode()
    body = header + b"".join(part.tobytes() for part in parts)
    return MAGIC + PREFIX.pack(len(header), zlib.crc32(body)) + body


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of a saved state, in the formats of a plan. ``caches``: the buffers of the plan's
    cache, each with its bytes. ``at_checkpoint``, ``at_end``: recurrent state by node."""

    caches: list[tuple[PlacedKV, Buffer, Bytes]]
    at_checkpoint: dict[str, Bytes]
    at_end: dict[str, Bytes]


@dataclass(frozen=True, slots=True)
class SavedState:
    """What :func:`pack` made, checked: the ``header``, and the bytes of the arrays, ``payload``."""

    header: dict[str, Any]
    payload: Bytes

    @classmethod
    def read(cls, data: bytes) -> SavedState:
        """Raises :class:`InvalidArgument` for anything else."""
        damaged = InvalidArgument("these bytes are no saved state, or damaged",
                                  hint="give what save_state returned, unchanged")
        start = len(MAGIC) + PREFIX.size
        if not isinstance(data, bytes | bytearray | memoryview):
            raise damaged
        data = bytes(data)
        if not data.startswith(MAGIC) or len(data) < start:
            raise damaged
        n, crc = PREFIX.unpack_from(data, len(MAGIC))
        if crc != zlib.crc32(data[start:]) or n > len(data) - start:
            raise damaged
        try:
            header = json.loads(data[start:start + n])
            sound = _is_sound(header)
        except (ValueError, KeyError, TypeError, RecursionError, UnsupportedQuant):
            raise damaged from None
        if not sound:
            raise damaged
        return cls(header, np.frombuffer(data, np.uint8, offset=start + n))

    @property
    def tokens(self) -> list[int]:
        """The tokens whose state it is."""
        return list(self.header["tokens"])

    @property
    def checkpoint(self) -> int:
        """The number of tokens after which another recurrent state was saved; 0: there is none."""
        return int(self.header.get("checkpoint", 0))

    def check(self, plan: Plan) -> None:
        """Raise :class:`InvalidArgument` where the state isn't of a graph like that of ``plan``."""
        if any(self.header[key] != wanted for key, wanted in _geometry(plan).items()):
            raise InvalidArgument(
                "the state is of another model, or of one whose heads are divided otherwise, or "
                "whose keys are rotated otherwise because its context is longer or shorter",
                hint="load it into the model that it was saved from")
        n_vocab = max((w.shape[0] for w in plan.blueprint.graph.weights().values()
                       if w.tensor == "token_embd.weight"), default=1 << 31)
        if any(not 0 <= token < n_vocab for token in self.tokens):
            raise InvalidArgument("the state has a token id that the model lacks",
                                  hint=f"ids go from 0 to {n_vocab - 1}")

    def arrays(self, plan: Plan, n_blocks: int) -> Arrays:
        """The arrays for ``n_blocks`` blocks of the cache of ``plan``, for which :meth:`check` was
        called; raises :class:`InvalidArgument`."""
        layout, old = plan.blueprint.layout, (self.header["k_type"], self.header["v_type"])
        caches = [(kv, *cache) for _, kv in sorted(plan.kv.items()) for cache in (
            (kv.k, kv.spec.k_dim, old[0], layout.k_type),
            (kv.v, kv.spec.v_dim, old[1], layout.v_type))]
        n_rows = [layout.block_tokens * n_blocks * kv.spec.n_kv_heads for kv, *_ in caches]
        sizes = [n * get(saved).row_bytes(dim)
                 for n, (_, _, dim, saved, _) in zip(n_rows, caches, strict=True)]
        states = self.header["slots"]
        n_states = (1 + bool(self.checkpoint)) * bool(states)
        if sum(sizes) + 4 * n_states * sum(size for _, size in states) != len(self.payload):
            raise InvalidArgument("the state lacks some of its bytes, or has too many",
                                  hint="give what save_state returned, unchanged")
        at, found = 0, Arrays([], {}, {})
        for n, size, (kv, buffer, dim, saved, now) in zip(n_rows, sizes, caches, strict=True):
            part = self.payload[at:at + size]
            found.caches.append((kv, buffer, _converted(part, saved, now, (n, dim))))
            at += size
        for into in (found.at_checkpoint, found.at_end)[2 - n_states:]:
            for name, size in states:
                into[name] = self.payload[at:at + 4 * size]
                _check_finite(into[name].view("<f4"))
                at += 4 * size
        return found

    def put_caches(self, plan: Plan, arrays: Arrays, blocks: Blocks) -> None:
        """Write the keys and values to ``blocks``."""
        for kv, buffer, data in arrays.caches:
            _write(kv, buffer, [int(block) for block in blocks], data)

    def put_slots(self, plan: Plan, arrays: Arrays, slot: int, *, at_checkpoint: bool = False
                  ) -> None:
        """Write the recurrent state after all tokens, or that at the checkpoint, to ``slot``."""
        for name, data in (arrays.at_checkpoint if at_checkpoint else arrays.at_end).items():
            buffer = plan.slots[name]
            backend_of(buffer.device.name).write(buffer, data, data.nbytes * slot)


def _is_sound(header: Any) -> bool:
    """Whether ``header`` has all that a header needs; other JSON may raise what
    :meth:`SavedState.read` catches."""
    sizes = [get(header[key]).block_size for key in ("k_type", "v_type")]
    n, before = len(header["tokens"]), header.get("checkpoint", 0)
    return (all(type(t) is int for t in header["tokens"])
            and all(dim % size == 0 for row in header["kv"]
                    for dim, size in zip(row[2:], sizes, strict=True))
            and {"slots", "block_tokens", "rotations"} <= set(header)
            and type(before) is int and 0 <= before < max(n, 1)
            and (before == 0 or (bool(header["slots"]) and before % header["block_tokens"] == 0)))


def _converted(part: Bytes, saved: str, now: str, shape: tuple[int, int]) -> Bytes:
    """``part``, rows of ``shape`` in the format ``saved``, in the format ``now``. Raises
    :class:`InvalidArgument` for NaN, infinity, and numbers that ``now`` can't hold."""
    numbers = dequantize(saved, part, shape)
    _check_finite(numbers)
    if saved == now:
        return part
    with np.errstate(over="ignore"):
        made: Bytes = quantize(now, numbers).reshape(-1)
    if not np.isfinite(dequantize(now, made, shape)).all():
        raise InvalidArgument(f"the state holds numbers that a cache of {now} can't",
                              hint='load the model with kv_type="f32"')
    return made


def _check_finite(numbers: npt.NDArray[np.float32]) -> None:
    if not np.isfinite(numbers).all():
        raise InvalidArgument("the state holds NaN or infinity",
                              hint="save it again, with kv_type=\"f32\" if need be")


def _geometry(plan: Plan) -> dict[str, Any]:
    sizes = {n.name: get_op(n.op).state_size(n) for n in plan.blueprint.graph.nodes}
    return {"block_tokens": plan.blueprint.layout.block_tokens,
            "rotations": rotations(plan.blueprint.graph),
            "kv": [[layer, kv.spec.n_kv_heads, kv.spec.k_dim, kv.spec.v_dim]
                   for layer, kv in sorted(plan.kv.items())],
            "slots": [[name, sizes[name]] for name in sorted(plan.slots)]}


def _write(kv: PlacedKV, buffer: Buffer, blocks: Sequence[int], data: Bytes) -> None:
    n = buffer.nbytes // kv.layout.n_blocks
    for i, block in enumerate(blocks):
        backend_of(buffer.device.name).write(buffer, data[i * n:(i + 1) * n], block * n)


def _read(buffer: Buffer, nbytes: int, offset: int) -> Bytes:
    backend = backend_of(buffer.device.name)
    return np.frombuffer(backend.read(buffer, nbytes, offset).tobytes(), np.uint8)
