"""All-reduces: sums of partial results that several devices computed, which all of them need.

Every device gets the partial results of the others and adds them up for itself, in the same order,
so that the sum has the same bits on all of them. Values then cross between devices once, not
twice: first to one device and then back. What follows until the next product that is divided,
such as a norm, every device computes for itself as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, Value

MOST_DEVICES = 4
"""More devices than this add up on one of them, since the number of copies between all of them
grows with its square."""


class AllReduce(NamedTuple):
    """A sum that several devices need.

    * ``parts``: the partial results, in the order in which they are added.
    * ``totals``: the sum, once for each device that needs it.
    * ``nodes``: the additions of all devices.
    """

    parts: tuple[Value, ...]
    totals: tuple[Value, ...]
    nodes: frozenset[Node]


class Sharded(NamedTuple):
    """A graph whose nodes are divided over devices; the device of each node that isn't on the
    device of its layer, and the sums that several devices need."""

    graph: Graph
    where: Mapping[Node, Device]
    all_reduces: Sequence[AllReduce] = ()


def exchange(devices: Sequence[Device]) -> bool:
    """Whether each of ``devices`` adds up partial results for itself. Two always do, if they work
    at the same time, as the host's can't. More than two make more copies in all than one device
    that adds for them, and do so only where a copy takes one hop."""
    backends = {d.name.partition(":")[0] for d in devices}
    is_direct = len(backends) == 1 and all(d.copies_to_peers for d in devices)
    return (not any(d.is_host for d in devices) and 1 < len(devices) <= MOST_DEVICES
            and (len(devices) == 2 or is_direct))


def without_unused(graph: Graph, repeated: Collection[Node], all_reduces: Sequence[AllReduce]
                   ) -> tuple[Graph, list[AllReduce]]:
    """``graph`` without those of ``repeated``, nodes that every device computes for itself, whose
    results nothing reads."""
    read = set(graph.outputs.values())
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if node not in repeated or not read.isdisjoint(node.outputs):
            nodes.append(node)
            read |= set(node.inputs)
    kept = set(nodes)
    return graph.replace_nodes(nodes[::-1]), [
        AllReduce(a.parts, tuple(v for v in a.totals if v in read), a.nodes & kept)
        for a in all_reduces]
