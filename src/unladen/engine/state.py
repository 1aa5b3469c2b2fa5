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
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Buffer, KVLayout, PlacedKV
from unladen.cache import CachedSequence
from unladen.engine.engine import Engine
from unladen.errors import ContextOverflow, InvalidArgument, UnsupportedQuant
from unladen.graph.ops import get_op
from unladen.quants import dequantize, get, quantize
from unladen.schedule.plan import Plan
from unladen.types import NO_SLOT

Bytes = npt.NDArray[np.uint8]

MAGIC = b"unladen state 1\n"
PREFIX = struct.Struct("<II")


def save(engine: Engine, tokens: Sequence[int]) -> bytes:
    """The state after as many of ``tokens`` as are in whole blocks in the cache and, for recurrent
    models, up to a checkpoint."""
    def read() -> bytes:
        cached = engine.sequence()
        try:
            # The last token is never taken from the cache: one more lets all of these be.
            n = cached.attach([*tokens, 0])
            return _pack(engine.plan, cached, list(tokens[:n]))
        finally:
            cached.release()
    return engine.between_steps(read)


def load(engine: Engine, data: bytes) -> list[int]:
    """Put what :func:`save` gave into the cache, where prompts that begin with its tokens find it;
    returns these. Raises :class:`InvalidArgument` for bytes that are damaged or of another model,
    :class:`ContextOverflow` where the cache is too small."""
    header, payload = _header(data)

    def write() -> list[int]:
        plan, tokens = engine.plan, header["tokens"]
        wanted = _describe(plan)
        if any(header[key] != wanted[key] for key in ("block_tokens", "kv", "slots")):
            raise InvalidArgument(
                "the state is of another model, or of one whose heads are divided otherwise",
                hint="load it into the model that it was saved from")
        if not tokens:
            return []
        cached = engine.sequence()
        try:
            if len(tokens) > engine.context_size or not cached.reserve(len(tokens)):
                raise ContextOverflow(
                    f"a state of {len(tokens)} tokens doesn't fit into the cache",
                    hint="load the model with a larger context_size, or free sequences first")
            _unpack(plan, cached, header, payload)
            cached.commit(tokens, len(tokens))
        finally:
            cached.release()
        return list(tokens)
    return engine.between_steps(write)


def _describe(plan: Plan) -> dict[str, Any]:
    sizes = {n.name: get_op(n.op).state_size(n) for n in plan.draft.graph.nodes}
    return {"block_tokens": plan.draft.layout.block_tokens,
            "kv": [[layer, kv.spec.n_kv_heads, kv.spec.k_dim, kv.spec.v_dim]
                   for layer, kv in sorted(plan.kv.items())],
            "slots": [[name, sizes[name]] for name in sorted(plan.slots)]}


def _pack(plan: Plan, cached: CachedSequence, tokens: list[int]) -> bytes:
    blocks = cached.table[:cached.n_blocks].tolist()
    layout, parts = plan.draft.layout, []
    for _, kv in sorted(plan.kv.items()):
        for buffer in (kv.k, kv.v):
            n = buffer.nbytes // layout.n_blocks
            parts += [_read(buffer, n, block * n) for block in blocks]
    for name, size in _describe(plan)["slots"] if cached.slot != NO_SLOT else []:
        parts.append(_read(plan.slots[name], 4 * size, 4 * size * cached.slot))
    payload = b"".join(parts)
    header = json.dumps({**_describe(plan), "tokens": tokens, "k_type": layout.k_type,
                         "v_type": layout.v_type}).encode()
    body = header + payload
    return MAGIC + PREFIX.pack(len(header), zlib.crc32(body)) + body


def _header(data: bytes) -> tuple[dict[str, Any], Bytes]:
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
            dim % size == 0 for row in header["kv"] for dim, size in zip(row[2:], sizes,
                                                                         strict=True))
        sound = sound and {"slots", "block_tokens"} <= set(header)
    except (ValueError, KeyError, TypeError, RecursionError, UnsupportedQuant):
        raise damaged from None
    if not sound:
        raise damaged
    return header, np.frombuffer(data, np.uint8, offset=start + n)


def _unpack(plan: Plan, cached: CachedSequence, header: dict[str, Any], payload: Bytes) -> None:
    layout = plan.draft.layout
    saved = KVLayout(layout.block_tokens, cached.n_blocks, header["k_type"], header["v_type"])
    caches = [(kv, *pair) for _, kv in sorted(plan.kv.items()) for pair in (
        (kv.k, kv.spec.k_dim, saved.k_type, layout.k_type),
        (kv.v, kv.spec.v_dim, saved.v_type, layout.v_type))]
    rows = [layout.block_tokens * cached.n_blocks * kv.spec.n_kv_heads for kv, *_ in caches]
    total = sum(n * get(old).row_bytes(dim)
                for n, (_, _, dim, old, _) in zip(rows, caches, strict=True))
    slots = header["slots"] if cached.is_recurrent else []
    if total + 4 * sum(size for _, size in slots) != len(payload):
        raise InvalidArgument("the state lacks some of its bytes, or has too many",
                              hint="give what save_state returned, unchanged")
    at = 0
    for n_rows, (kv, buffer, dim, old, new) in zip(rows, caches, strict=True):
        n = n_rows * get(old).row_bytes(dim)
        _write_blocks(kv, buffer, cached, _converted(payload[at:at + n], old, new, n_rows, dim))
        at += n
    for name, size in slots:
        backend_of(plan.slots[name].device.name).write(
            plan.slots[name], payload[at:at + 4 * size], 4 * size * cached.next_slot)
        at += 4 * size


def _converted(raw: Bytes, old: str, new: str, n_rows: int, dim: int) -> Bytes:
    if old == new:
        return raw
    return quantize(new, dequantize(old, raw, (n_rows, dim))).reshape(-1)


def _write_blocks(kv: PlacedKV, buffer: Buffer, cached: CachedSequence, data: Bytes) -> None:
    n = buffer.nbytes // kv.layout.n_blocks
    for i, block in enumerate(cached.table[:cached.n_blocks].tolist()):
        backend_of(buffer.device.name).write(buffer, data[i * n:(i + 1) * n], block * n)


def _read(buffer: Buffer, nbytes: int, offset: int) -> bytes:
    backend = backend_of(buffer.device.name)
    backend.sync(buffer.device)
    return backend.read(buffer, nbytes, offset).tobytes()
