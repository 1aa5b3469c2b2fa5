"""Which nodes work together without a value of float32 between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unladen.graph.graph import Node, Value
from unladen.graph.ops.linear import n_weights
from unladen.graph.ops.norm_groups import group_of


@dataclass(frozen=True, slots=True)
class Joined:
    """``norms``: the norm of rows that the product right after it applies to what it packs, by what
    the norm would have made. ``readers``: by what a gated product makes, the one product that reads
    it, for which it is packed as it is made. ``nbytes``: what these values take."""

    norms: Mapping[Value, Node]
    readers: Mapping[Value, Node]
    nbytes: Mapping[Value, int]


def joined(nodes: Sequence[Node], inner: frozenset[Value],
           packed_bytes: Callable[[Node], int | None]) -> Joined:
    """What can be joined of ``nodes`` over values ``inner``, which nothing else reads.

    ``packed_bytes``: how large is what a product reads, packed; None: it is not to be packed as it
    is made.
    """
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in node.inputs:
            readers.setdefault(value, []).append(node)  # twice where it reads it twice
    only = {v: found[0] for v, found in readers.items()
            if v in inner and len(found) == 1 and found[0].op == "linear"
            and found[0].inputs[0] is v}
    # Between a norm and a node further on, what the norm reads may be overwritten.
    norms = {norm.outputs[0]: norm for norm, after in itertools.pairwise(nodes)
             if _is_norm_of_rows(norm) and only.get(norm.outputs[0]) is after}
    gated = [n.outputs[0] for n in nodes if n.op == "linear" and "act" in n.attrs]
    sizes = {v: packed_bytes(only[v]) for v in gated if v in only and n_weights(only[v]) == 1}
    packed = {v: n for v, n in sizes.items() if n is not None}
    return Joined(norms, {v: only[v] for v in packed}, {**dict.fromkeys(norms, 0), **packed})


def _is_norm_of_rows(node: Node) -> bool:
    if node.op != "rms_norm":
        return False
    n_cols = node.inputs[0].shape[-1]
    return (group_of(node) == n_cols and "b" not in node.weights
            and all(w.n_elements == n_cols for w in node.weights.values()))
