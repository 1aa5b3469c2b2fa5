"""Joins gate and up products and the gated unit over them: one ``linear`` with attribute ``act``.

This saves writing and reading both products, the largest activations of a step.
"""

from __future__ import annotations

from unladen.graph.graph import Graph, Node, Value
from unladen.graph.ops.gated import GatedUnit

PHASE = "fuse"


def run(graph: Graph) -> Graph:
    """``graph`` with each plain ``glu`` joined to the product that it alone reads."""
    uses = graph.uses()
    products = {n.outputs: n for n in graph.nodes
                if n.op == "linear" and len(n.outputs) == 2 and len(n.inputs) == 1}
    fused = {n: products[n.inputs] for n in graph.nodes
             if n.op == "glu" and n.inputs in products and _single_use(n.inputs, uses)
             and GatedUnit.of(n).is_plain}
    dropped = set(fused.values())
    return graph.replace_nodes([
        _fuse(fused[n], n) if n in fused else n for n in graph.nodes if n not in dropped])


def _single_use(values: tuple[Value, ...], uses: dict[Value, int]) -> bool:
    return all(uses[v] == 1 for v in values)


def _fuse(product: Node, glu: Node) -> Node:
    return Node(product.name, "linear", product.inputs, glu.outputs, product.weights,
                {**product.attrs, "act": glu.attrs["act"]}, None, product.layer)
