"""Finds nodes that can be joined, so that no float32 value is stored between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unladen.graph.graph import Node, Value
from unladen.graph.ops.linear import n_weights
from unladen.graph.ops.norm_groups import group_of


class Joined(NamedTuple):
    """Pairs of nodes that are joined, by the value between them.

    * ``norms``: the norm that makes this value, if the next product applies the norm while it
      rounds its input. The value is never stored.
    * ``readers``: the only product that reads this value, if the value is the output of a gated
      product and is rounded for its reader at once.
    * ``nbytes``: bytes of these values in the arena.
    """

    norms: Mapping[Value, Node]
    readers: Mapping[Value, Node]
    nbytes: Mapping[Value, int]


def joined(nodes: Sequence[Node], inner: frozenset[Value],
           packed_bytes: Callable[[Node], int | None]) -> Joined:
    """The pairs of ``nodes`` that can be joined over the values ``inner``, which only these nodes
    read.

    ``packed_bytes``: bytes of a product's rounded input; None where the input should not be rounded
    as soon as it is made.
    """
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in node.inputs:
            readers.setdefault(value, []).append(node)  # twice if the node reads the value twice
    only = {v: found[0] for v, found in readers.items()
            if v in inner and len(found) == 1 and found[0].op == "linear"
            and found[0].inputs[0] is v}
    # Only neighbours are joined: before a later node runs, the norm's input may be overwritten.
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
