"""Rotations that follow one another, of queries and of keys, become one ``rope`` of both.

Saves a device the start of a kernel that does little.
"""

from __future__ import annotations

from unladen.graph.graph import Graph, Node


def run(graph: Graph) -> Graph:
    """The graph with every ``rope`` fused into the one before it that rotates the same way."""
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
