"""A sequence's keys, values and recurrent state as bytes, and back.

The bytes are a magic, the length of a JSON header, a check sum of all that follows, the header, and
the arrays that the header lists. These are the blocks of the cache for each group of layers, each
as :meth:`~unladen.runtime.plan.Plan.read_block` gives it (the last block may be filled in part),
then each node's recurrent state: at the checkpoint, if there is one, and at the end. They don't
depend on the size of the cache and its device; keys and values of other types are converted. A
state belongs to one graph.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Buffer, PlacedKV
from unladen.errors import InvalidArgument
from unladen.graph.ops import get_op
from unladen.quants import dequantize, get, quantize, registry
from unladen.runtime.blocks import BLOCK_VERSION
from unladen.runtime.carry import rotations
from unladen.runtime.plan import Plan
from unladen.types import NO_SLOT

Bytes = npt.NDArray[np.uint8]

Blocks = Sequence[int] | npt.NDArray[np.int32]

MAGIC = b"unladen state 2\n"
"""The first bytes of every saved state, which tell it from other files."""

BY_CACHE = b"unladen state 1\n"
"""The first bytes of older states, which are read too. They hold the keys of all blocks, then the
values of all blocks, for one layer after another."""

PREFIX = struct.Struct("<II")
"""The layout of the numbers after the magic: bytes of the header, and the check sum (CRC-32) of all
that follows."""


def pack(plan: Plan, tokens: Sequence[int], blocks: Blocks, slot: int,
         checkpoint: tuple[int, int] = (0, NO_SLOT), firsts: Sequence[int] = (0,)) -> bytes:
    """The state of a sequence in the caches of a plan, as bytes that :class:`SavedState` reads.

    * ``plan``: the plan whose caches hold the sequence.
    * ``tokens``: the sequence's tokens.
    * ``blocks``: the blocks of its keys and values; there may be more than its tokens fill.
      With windows int32 [n_groups, n_blocks].
    * ``slot``: the slot of its recurrent state.
    * ``checkpoint``: a number of tokens, and the slot of the recurrent state after these.
    * ``firsts``: for each group of layers the index of the first block that the sequence holds.
    """
    layout = plan.blueprint.layout
    n_full, rest = divmod(len(tokens), layout.block_tokens)
    parts: list[Bytes] = []
    for group, table in enumerate(np.atleast_2d(np.asarray(blocks, np.int32))):
        used = table[firsts[group]:n_full + bool(rest)]
        parts += [plan.read_block(int(block), group) for block in used]
        if rest:
            # The rest of the last block may hold rows of other requests: don't save them.
            _blank(plan.kv_of(group), parts[-1], rest)
    geometry = _geometry(plan)
    n_before, slot_before = checkpoint
    states = [s for s in (slot_before, slot) if s != NO_SLOT] if slot != NO_SLOT else []
    for where in states:
        parts += [_read(plan.slots[name], 4 * size, 4 * size * where)
                  for name, size in geometry["slots"]]
    header = json.dumps({**geometry, "tokens": list(tokens), "k_type": layout.k_type,
                         "v_type": layout.v_type, "block_version": BLOCK_VERSION,
                         "firsts": list(firsts),
                         "checkpoint": n_before if len(states) > 1 else 0}).encode()
    body = header + b"".join(part.tobytes() for part in parts)
    return MAGIC + PREFIX.pack(len(header), zlib.crc32(body)) + body


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of a saved state, in the formats of a plan. ``blocks``: by group those of the
    cache, uint8 [n_blocks, block_bytes]. ``at_checkpoint``, ``at_end``: recurrent state by node."""

    blocks: list[Bytes]
    at_checkpoint: dict[str, Bytes]
    at_end: dict[str, Bytes]


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state that :func:`pack` made, checked. ``header``: its JSON header; ``payload``: the bytes
    of the arrays; ``is_by_cache``: they are ordered as after :data:`BY_CACHE`."""

    header: dict[str, Any]
    payload: Bytes
    is_by_cache: bool = False

    @classmethod
    def read(cls, data: bytes) -> SavedState:
        """The state in ``data``; raises :class:`InvalidArgument` for anything but a state from
        :func:`pack`."""
        damaged = InvalidArgument("these bytes aren't a saved state, or are damaged",
                                  hint="give what save_state returned, unchanged")
        start = len(MAGIC) + PREFIX.size
        if not isinstance(data, bytes | bytearray | memoryview):
            raise damaged
        data = bytes(data)
        if not data.startswith((MAGIC, BY_CACHE)) or len(data) < start:
            raise damaged
        n, crc = PREFIX.unpack_from(data, len(MAGIC))
        if crc != zlib.crc32(data[start:]) or n > len(data) - start:
            raise damaged
        try:
            header = json.loads(data[start:start + n])
            sound = _is_sound(header)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise damaged from None
        if not sound:
            raise damaged
        if header.get("block_version", BLOCK_VERSION) != BLOCK_VERSION:
            raise InvalidArgument("the state was saved by a version that orders blocks otherwise",
                                  hint="save it again")
        return cls(header, np.frombuffer(data, np.uint8, offset=start + n),
                   data.startswith(BY_CACHE))

    @property
    def tokens(self) -> list[int]:
        """The tokens that the state is of."""
        return list(self.header["tokens"])

    @property
    def firsts(self) -> list[int]:
        """By group of layers, the index of the first block that was saved."""
        return list(self.header.get("firsts", [0]))

    @property
    def checkpoint(self) -> int:
        """The number of tokens at the checkpoint whose recurrent state was saved too; 0: none."""
        return int(self.header.get("checkpoint", 0))

    def check(self, plan: Plan) -> None:
        """Raise :class:`InvalidArgument` where the state isn't of a graph like that of ``plan``."""
        # Older states have no windows.
        header = {"windows": [0] * len(plan.kv), "firsts": [0], **self.header}
        groups = 1 + len(plan.blueprint.limits.windows)
        differs = {key for key, wanted in _geometry(plan).items() if header[key] != wanted}
        if len(header["firsts"]) != groups or differs == {"windows"}:
            raise InvalidArgument(
                "the state is of a model whose layers see other windows: its blocks are in "
                f"{len(header['firsts'])} groups of layers, those of this model in {groups}",
                hint="load it into the model that saved it, or save it again")
        if differs:
            raise InvalidArgument(
                "the state is of another model, or its heads are divided in another way, or its "
                "keys are rotated in another way because its context is longer or shorter",
                hint="load it into the model that it was saved from")
        n_vocab = max((w.shape[0] for w in plan.blueprint.graph.weights().values()
                       if w.tensor == "token_embd.weight"), default=1 << 31)
        if any(not 0 <= token < n_vocab for token in self.tokens):
            raise InvalidArgument("the state has a token id that the model lacks",
                                  hint=f"ids go from 0 to {n_vocab - 1}")

    def arrays(self, plan: Plan, n_blocks: int) -> Arrays:
        """The arrays for ``n_blocks`` blocks of the cache of ``plan``, for which :meth:`check` was
        called; raises :class:`InvalidArgument`."""
        groups = [(self._caches(plan, group), max(0, n_blocks - first))
                  for group, first in enumerate(self.firsts)]
        sizes = [n * sum(size for size, *_ in caches) for caches, n in groups]
        n_cache_bytes = sum(sizes)
        states = self.header["slots"]
        n_states = (1 + bool(self.checkpoint)) * bool(states)
        if n_cache_bytes + 4 * n_states * sum(size for _, size in states) != len(self.payload):
            raise InvalidArgument("the state lacks some of its bytes, or has too many",
                                  hint="give what save_state returned, unchanged")
        found = Arrays([], {}, {})
        at = 0
        for size, (caches, n) in zip(sizes, groups, strict=True):
            found.blocks.append(self._blocks(self.payload[at:at + size], caches, n))
            at += size
        for into in (found.at_checkpoint, found.at_end)[2 - n_states:]:
            for name, size in states:
                into[name] = self.payload[at:at + 4 * size]
                _check_finite(into[name].view("<f4"))
                at += 4 * size
        return found

    def _caches(self, plan: Plan, group: int) -> list[tuple[int, int, str, str]]:
        """For the keys and then the values of each layer: their bytes in a block, the numbers in a
        row, the format that they were saved in, and that of ``plan``."""
        layout, header = plan.blueprint.layout, self.header
        k_types, v_types = (header["k_type"], layout.k_type), (header["v_type"], layout.v_type)
        sides = [(kv.spec.n_kv_heads, dim, types) for _, kv in sorted(plan.kv_of(group).items())
                 for dim, types in ((kv.spec.k_dim, k_types), (kv.spec.v_dim, v_types))]
        return [(layout.block_tokens * n_heads * get(types[0]).row_bytes(dim), dim, *types)
                for n_heads, dim, types in sides]

    def _blocks(self, whole: Bytes, caches: list[tuple[int, int, str, str]], n_blocks: int
                ) -> Bytes:
        """The blocks in the formats of a plan: uint8 [n_blocks, block_bytes]."""
        if n_blocks == 0:
            return np.zeros((0, 0), np.uint8)
        ends = np.cumsum([0, *(n for n, *_ in caches)])
        made = [np.zeros((n_blocks, 0), np.uint8)]
        for at, (n, dim, saved, now) in zip(ends, caches, strict=False):
            part = (whole[n_blocks * at:n_blocks * (at + n)] if self.is_by_cache else
                    whole.reshape(n_blocks, -1)[:, at:at + n].reshape(-1))
            n_rows = part.size // get(saved).row_bytes(dim)
            made.append(_converted(part, saved, now, (n_rows, dim)).reshape(n_blocks, -1))
        return np.concatenate(made, axis=1)

    def put_blocks(self, plan: Plan, arrays: Arrays, blocks: Blocks) -> None:
        """Write the keys and values to ``blocks``."""
        for group, table in enumerate(np.atleast_2d(np.asarray(blocks, np.int32))):
            used = table[self.firsts[group]:]
            for block, data in zip(used, arrays.blocks[group], strict=False):
                plan.write_block(int(block), data, group)

    def put_slots(self, plan: Plan, arrays: Arrays, slot: int, *, at_checkpoint: bool = False
                  ) -> None:
        """Write the recurrent state to ``slot``: the one after all tokens, or the one at the
        checkpoint."""
        for name, data in (arrays.at_checkpoint if at_checkpoint else arrays.at_end).items():
            buffer = plan.slots[name]
            backend_of(buffer.device.name).write(buffer, data, data.nbytes * slot)


def _is_sound(header: Any) -> bool:
    """Whether ``header`` has all fields of the right types. Hostile JSON may also raise one of the
    exceptions that :meth:`SavedState.read` catches."""
    sizes = [registry()[header[key]].block_size for key in ("k_type", "v_type")]
    n, before = len(header["tokens"]), header.get("checkpoint", 0)
    firsts = header.get("firsts", [0])
    return (all(type(t) is int for t in header["tokens"])
            and type(firsts) is list and firsts[:1] == [0]
            and all(type(f) is int and 0 <= f <= n for f in firsts)
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
            "windows": [kv.layout.window for _, kv in sorted(plan.kv.items())],
            "slots": [[name, sizes[name]] for name in sorted(plan.slots)]}


def _blank(caches: Mapping[int, PlacedKV], data: Bytes, n_tokens: int) -> None:
    """Set the rows of ``data``, a block of ``caches``, to zero behind its first ``n_tokens``."""
    at = 0
    for _, kv in sorted(caches.items()):
        for buffer in (kv.k, kv.v):
            n = buffer.nbytes // kv.layout.n_blocks
            rows = data[at:at + n].reshape(kv.spec.n_kv_heads, kv.layout.block_tokens, -1)
            rows[:, n_tokens:] = 0
            at += n


def _read(buffer: Buffer, nbytes: int, offset: int) -> Bytes:
    backend = backend_of(buffer.device.name)
    return np.frombuffer(backend.read(buffer, nbytes, offset).tobytes(), np.uint8)
