"""Joins the rotations of queries and of keys, which follow one another: one ``rope`` of both.

This saves a device the start of a small kernel.
"""

from __future__ import annotations

from unladen.graph.graph import Graph, Node

PHASE = "fuse"


def run(graph: Graph) -> Graph:
    """``graph`` with each ``rope`` joined to the node before it where that rotates the same way."""
    nodes: list[Node] = []
    for node in graph.nodes:
        before = nodes[-1] if nodes else None
        if before is not None and _alike(before, node):
            nodes[-1] = Node(before.name, "rope", (*before.inputs[:-1], *node.inputs),
                             (*before.outputs, *node.outputs), {}, node.attrs, None, node.layer)
        else:
            nodes.append(node)
    return graph.replace_nodes(nodes)


def _alike(a: Node, b: Node) -> bool:
    return (a.op == b.op == "rope" and a.layer == b.layer and a.attrs == b.attrs
            and a.inputs[-1] is b.inputs[-1] and b.inputs[0] not in a.outputs)
