"""Finds nodes that one dispatch computes together, so that no value is stored between them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set

from unladen.graph.graph import Node, Value


def turned(nodes: Sequence[Node], inner: Set[Value]) -> Mapping[Value, Node]:
    """The keys that ``kv_write`` rotates while it stores them, and the ``rope`` node that it
    replaces, which rotates queries and these keys.

    ``inner``: the values that only ``nodes`` read.
    """
    n_readers: dict[Value, int] = {}
    for node in nodes:
        for value in node.inputs:
            n_readers[value] = n_readers.get(value, 0) + 1
    return {rope.outputs[1]: rope for rope, write in itertools.pairwise(nodes)
            if _is_joined(rope, write) and rope.outputs[1] in inner
            and n_readers[rope.outputs[1]] == 1}


def _is_joined(rope: Node, write: Node) -> bool:
    # Neighbours alone: before a later node runs, the inputs of `rope` may be overwritten.
    if rope.op != "rope" or write.op != "kv_write" or len(rope.outputs) != 2:
        return False
    queries, keys = rope.outputs
    spec = write.state
    assert spec is not None
    return (write.inputs[0] is keys and queries not in write.inputs
            and rope.int_attr("head_dim") == spec.k_dim and spec.k_dim % 2 == 0)
