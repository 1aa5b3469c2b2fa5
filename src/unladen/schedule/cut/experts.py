"""Divides the experts of each layer over the devices: ``expert_split``.

Every device chooses among all experts, which is a small product, and adds up those that it holds.
The sums are added in the order of the devices. Only one row for each token goes from one device to
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, Value
from unladen.graph.ops.moe import EXPERT_ROLES
from unladen.schedule.place import PlaceOptions, fractions, held, pins


def divide(graph: Graph, devices: Sequence[Device], options: PlaceOptions) -> Graph:
    """``graph`` with each ``moe`` node divided: a node for each device that has some of its
    experts, and their sum. Where ``expert_split`` is None, the graph stays the same. Nodes that
    other options place stay whole.

    :func:`~unladen.schedule.place.pins` places the parts. Raises :class:`InvalidArgument`.
    """
    if options.expert_split is None:
        return graph
    fractions(len(devices), options.expert_split, "expert_split")  # refuse bad ones in any model
    fixed = pins(graph, devices, options, options.n_cpu_moe or 0)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += [node] if node.op != "moe" or node in fixed else _divided(node, devices, options)
    return graph.replace_nodes(nodes)


def _divided(node: Node, devices: Sequence[Device], options: PlaceOptions) -> Iterator[Node]:
    (y,) = node.outputs
    sums: list[Value] = []
    parts = []
    for device, first, n in held(node, devices, options):
        name = f"{node.name}@{device.name}"
        weights = {role: w.rows(first, n) if role in EXPERT_ROLES else w
                   for role, w in node.weights.items()}
        sums.append(Value(name, y.shape))
        parts.append((device, Node(name, "moe", node.inputs, (sums[-1],), weights,
                                   {**node.attrs, "first_expert": first}, layer=node.layer)))
    # The host comes last: the other devices then work at the same time.
    yield from (part for _, part in sorted(parts, key=lambda p: p[0].is_host))
    total = sums[0]
    for i, other in enumerate(sums[1:], 1):
        name = f"{y.name}.sum{i}"
        target = y if i == len(sums) - 1 else Value(name, y.shape)
        yield Node(name, "add", (total, other), (target,), layer=node.layer)
        total = target
