"""Joins a product and the addition of the residual stream: one ``linear`` with ``residual``.

This saves a pass over the result.
"""

from __future__ import annotations

from unladen.graph.graph import Graph, Node, Value

PHASE = "fuse"
AFTER = {"fuse_glu"}  # its fused products have one output, which may have a residual added


def run(graph: Graph) -> Graph:
    """``graph`` with each ``add`` joined to the single-output product that only it reads."""
    uses = graph.uses()
    product_of = {n.outputs[0]: n for n in graph.nodes
                  if n.op == "linear" and len(n.outputs) == 1 and "residual" not in n.attrs}
    fused: dict[Node, Node] = {}
    dropped: set[Node] = set()
    for node in graph.nodes:
        if node.op != "add" or node.weights:
            continue
        for value, other in (node.inputs, node.inputs[::-1]):
            product = product_of.get(value)
            if product is not None and uses[value] == 1 and product not in dropped:
                fused[node] = _fuse(product, node, other)
                dropped.add(product)
                break
    return graph.replace_nodes([fused.get(n, n) for n in graph.nodes if n not in dropped])


def _fuse(product: Node, add: Node, residual: Value) -> Node:
    return Node(product.name, "linear", (*product.inputs, residual), add.outputs, product.weights,
                {**product.attrs, "residual": True}, None, product.layer)
