"""Moves ``select_rows``, which keeps the rows whose logits are wanted, before row-wise nodes.

The nodes after the last layer's attention then compute these rows alone: for a prompt, one row
instead of all.
"""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.graph import Graph, Node, Value
from unladen.graph.ops import get_op

PHASE = "fuse"
AFTER = {"fuse_rope"}  # fuse_rope joins neighbours, and this pass puts nodes between them


def run(graph: Graph) -> Graph:
    """``graph`` with ``select_rows`` moved before all row-wise nodes whose results nothing else
    reads."""
    which = graph.inputs["out_rows"]
    unread = graph.uses()
    chosen: dict[Value, Node] = {}  # value -> the node that chooses its rows
    nodes: list[Node] = []  # in reverse order
    for node in reversed(graph.nodes):
        if node.op == "select_rows" and node.inputs[1] is which and node.inputs[0] not in chosen:
            chosen[node.inputs[0]] = node
            unread[node.inputs[0]] -= 1
        elif (get_op(node.op).is_row_wise
                and all(v in chosen and not unread[v] for v in node.outputs)):
            rows = node.outputs[0].shape[0]
            for value in node.inputs:
                if value.shape[0] == rows:
                    unread[value] -= 1
                    chosen.setdefault(value, _select(value, which, node.layer))
            of = {v: n.outputs[0] for v, n in chosen.items()}
            nodes.append(replace(node, inputs=tuple(of.get(v, v) for v in node.inputs),
                                 outputs=tuple(of[v] for v in node.outputs)))
            for value in node.outputs:
                del chosen[value]
        else:
            nodes += [chosen.pop(v) for v in node.outputs if v in chosen]
            nodes.append(node)
    nodes += chosen.values()
    return graph.replace_nodes(nodes[::-1])


def _select(value: Value, which: Value, layer: int) -> Node:
    name = f"{value.name}.chosen"
    rows = Value(name, (*which.shape, *value.shape[1:]), value.dtype)
    return Node(name, "select_rows", (value, which), (rows,), layer=layer)
