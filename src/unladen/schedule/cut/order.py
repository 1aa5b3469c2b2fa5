"""Orders the nodes of a placed graph so that devices work at the same time.

The host computes its own nodes itself, and starts nothing on another device meanwhile. So other
devices get all work that doesn't wait for the host first: a layer's shared experts run on a
graphics card while the host computes the routed ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, Value
from unladen.schedule.place import Placement


def others_first(graph: Graph, device_of: Mapping[Node, tuple[Device, str]]) -> list[Node]:
    """The nodes of ``graph``, each of the host's as late as the other devices' nodes allow.

    Nodes of one cache keep their order. Within a layer, other devices' nodes that wait for the host
    are overtaken with its nodes. That happens only if a product is among those that overtake, since
    the start of a segment takes time, too. A node that reads a value of a third device overtakes
    nothing: the host may have to wait for that value, and works until then. Where all nodes are on
    the host, or none is, the order stays the same.
    """
    home = {v: device_of[n][0] for n in graph.nodes for v in n.outputs}
    needs = _needs(graph)
    ordered: list[Node] = []
    waiting: dict[Node, None] = {}  # the host's, and those that wait for it in the same layer
    early: list[Node] = []  # other devices' that came after one of these and don't wait
    for node in graph.nodes:
        device = device_of[node][0]
        if device.is_host:
            waiting[node] = None
            continue
        sources = {home[v] for v in node.inputs if v in home and not home[v].is_host}
        is_alone = sources <= {device}
        wanted = _found(node, needs, waiting) if is_alone else set(waiting)
        if wanted and is_alone and node.layer == next(iter(waiting)).layer:
            waiting[node] = None
            continue
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


def late_sums(graph: Graph, placement: Placement) -> tuple[Graph, Placement]:
    """``graph`` with each sum apart that a product of another device was joined with, where it
    alone waits for a node of the host in the same layer: the last product of a shared expert to
    which the routed experts' sum is added. The product can then run meanwhile."""
    hosts_of: dict[Value, tuple[int, frozenset[Node]]] = {}

    def waits(value: Value, layer: int) -> frozenset[Node]:
        made_in, hosts = hosts_of.get(value, (layer, frozenset[Node]()))
        return hosts if made_in == layer else frozenset()
    nodes: list[Node] = []
    device_of, why = dict(placement.device_of), dict(placement.why)
    for node in graph.nodes:
        is_host = device_of[node].is_host
        *others, last = [waits(v, node.layer) for v in node.inputs] or [frozenset[Node]()]
        every = last.union(*others) | ({node} if is_host else set())
        hosts_of |= dict.fromkeys(node.outputs, (node.layer, every))
        if is_host or not node.attrs.get("residual") or last <= frozenset().union(*others):
            nodes.append(node)
            continue
        (y,) = node.outputs
        part = Value(f"{node.name}.product", y.shape)
        product = replace(node, inputs=node.inputs[:-1], outputs=(part,),
                          attrs={k: v for k, v in node.attrs.items() if k != "residual"})
        total = Node(y.name, "add", (part, node.inputs[-1]), (y,), layer=node.layer)
        nodes += [product, total]
        for each in (product, total):
            device_of[each], why[each] = device_of[node], why[node]
    return graph.replace_nodes(nodes), replace(placement, device_of=device_of, why=why)


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
