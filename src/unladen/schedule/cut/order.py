"""Orders the nodes of a placed graph so that devices work at the same time.

The host computes its own nodes itself, and starts nothing on another device meanwhile. So other
devices get all work that doesn't wait for the host first: a layer's shared experts run on a
graphics card while the host computes the routed ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, Value


def others_first(graph: Graph, device_of: Mapping[Node, tuple[Device, str]]) -> list[Node]:
    """The nodes of ``graph``, each of the host's as late as the other devices' nodes allow.

    Nodes of one cache keep their order, and so do the other devices' nodes. These overtake the
    host's only if a product is among them, since the start of a segment takes time, too. A node
    that reads a value of a third device overtakes nothing: the host may have to wait for that
    value, and works until then. Where all nodes are on the host, or none is, the order stays the
    same.
    """
    home = {v: device_of[n][0] for n in graph.nodes for v in n.outputs}
    needs = _needs(graph)
    ordered: list[Node] = []
    waiting: dict[Node, None] = {}  # the host's
    early: list[Node] = []  # those of other devices that came after one of these
    for node in graph.nodes:
        device = device_of[node][0]
        if device.is_host:
            waiting[node] = None
            continue
        sources = {home[v] for v in node.inputs if v in home and not home[v].is_host}
        wanted = _found(node, needs, waiting) if sources <= {device} else set(waiting)
        if wanted:
            if any(map(is_product, early)):
                ordered += early + [n for n in waiting if n in wanted]
                waiting = {n: None for n in waiting if n not in wanted}
            else:
                ordered += _as_before(graph, early, waiting)
                waiting = {}
            early = []
        (early if waiting else ordered).append(node)
    worth = any(map(is_product, early))
    return ordered + ([*early, *waiting] if worth else _as_before(graph, early, waiting))


def is_product(node: Node) -> bool:
    """Whether ``node`` multiplies with a matrix, or mixes tokens: work that takes long."""
    return bool(node.state and node.outputs) or any(len(w.shape) > 1 for w in node.weights.values())


def _as_before(graph: Graph, *some: Iterable[Node]) -> list[Node]:
    """``some`` nodes of ``graph`` in its order."""
    wanted = set(itertools.chain(*some))
    return [n for n in graph.nodes if n in wanted] if wanted else []


def _needs(graph: Graph) -> Mapping[Node, list[Node]]:
    """By node, those that must run before it: they make its inputs, or use its cache before it."""
    maker: dict[Value, Node] = {}
    last_of: dict[int, Node] = {}
    needs: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        needs[node] = [maker[v] for v in node.inputs if v in maker]
        if node.state is not None:
            if node.state.layer in last_of:
                needs[node].append(last_of[node.state.layer])
            last_of[node.state.layer] = node
        maker |= dict.fromkeys(node.outputs, node)
    return needs


def _found(node: Node, needs: Mapping[Node, list[Node]], waiting: Mapping[Node, None]) -> set[Node]:
    """The nodes of ``waiting`` that ``node`` needs, itself or through one another."""
    found: set[Node] = set()
    open_ends = [node]
    while open_ends:
        fresh = [n for n in needs[open_ends.pop()] if n in waiting and n not in found]
        found |= set(fresh)
        open_ends += fresh
    return found
