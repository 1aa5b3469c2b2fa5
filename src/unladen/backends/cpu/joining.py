"""Finds neighbouring nodes that can work together without a float32 value between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unladen.graph.graph import Node, Value
from unladen.graph.ops.linear import n_weights
from unladen.graph.ops.norm_groups import group_of


@dataclass(frozen=True, slots=True)
class Joined:
    """What is joined, by the value between two nodes.

    ``norms``: output of a norm -> the norm, when the next product applies it while packing, so the
    output is never stored. ``readers``: output of a gated product -> the one product that reads it,
    when the output is packed for that product as it is made. ``nbytes``: what these values take in
    the arena.
    """

    norms: Mapping[Value, Node]
    readers: Mapping[Value, Node]
    nbytes: Mapping[Value, int]


def joined(nodes: Sequence[Node], inner: frozenset[Value],
           packed_bytes: Callable[[Node], int | None]) -> Joined:
    """What can be joined of ``nodes`` over the values ``inner``, which nothing outside reads.

    ``packed_bytes``: bytes of the packed input of a product; None where the input should not be
    packed as it is made.
    """
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in node.inputs:
            readers.setdefault(value, []).append(node)  # twice where it reads it twice
    only = {v: found[0] for v, found in readers.items()
            if v in inner and len(found) == 1 and found[0].op == "linear"
            and found[0].inputs[0] is v}
    # Only of neighbours: before a node further on runs, the norm's input may be overwritten.
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
