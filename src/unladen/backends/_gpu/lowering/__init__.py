"""Turns nodes into dispatches: one file for each op, found by scanning this folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from unladen.backends._gpu.dispatch import Lowered
from unladen.backends._gpu.lowering.base import Lowering, OpLowering
from unladen.backends._gpu.target import Target
from unladen.backends.base import Segment
from unladen.discover import Found, by_class, search

__all__ = ["Lowering", "OpLowering", "found", "lower", "registry"]


@functools.cache
def found() -> Found[OpLowering]:
    """The lowering of every op by the op's name, and the plug-ins that were left out."""
    of_module = by_class(OpLowering, lambda c: (str(c.op),))  # type: ignore[type-abstract]
    return search("unladen.backends._gpu.lowering", "lowering",
                  lambda module: ((name, c()) for name, c in of_module(module)))


@functools.cache
def registry() -> Mapping[str, OpLowering]:
    """The lowering of every op by the op's name."""
    return found().named()


def lower(target: Target, segment: Segment) -> Lowered:
    """The dispatches of ``segment`` on ``target``; raises :class:`OutOfMemory` where a kernel would
    bind more than the device can bind at once."""
    low = Lowering(target, segment)
    replaced = {*low.turned.values(), *(n for each in low.normed.values() for n in each.replaced)}
    low.tile_tokens = min((registry()[node.op].tile_tokens(node, target) for node in segment.nodes),
                          default=low.tile_tokens)
    for node in segment.nodes:
        if node not in replaced:
            low.add(registry()[node.op], node)
    heads = [n.state.n_kv_heads for n in segment.nodes if n.state is not None]
    chosen = None if segment.chosen is None else low.value(segment.chosen)
    return Lowered(low.dispatches, low.tables, chosen, min(heads, default=1), low.tile_tokens,
                   low.split_keys)
