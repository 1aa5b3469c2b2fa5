"""All-reduces: sums of partial results that several devices computed, which all of them need.

Every device gets the partial results of the others and adds them up for itself, in the same order,
so that the sum has the same bits on all of them. Values then cross between devices once, not
twice: first to one device and then back. What follows until the next product that is divided,
such as a norm, every device computes for itself as well.

Where a library adds up values over all of the devices (:meth:`Backend.adds_with`), it does so in
place of the copies and additions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from unladen.backends import backend_of
from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, Value

MOST_DEVICES = 4
"""More devices than this add up on one of them, since the number of copies between all of them
grows with its square."""

COPIES = "copies of the parts"
"""What plans say where no library makes a sum."""


class AllReduce(NamedTuple):
    """A sum that several devices need.

    * ``parts``: the partial results, in the order in which they are added.
    * ``totals``: the sum, once for each device that needs it.
    * ``nodes``: the additions of all devices.
    * ``by``: the library that does them, "": the devices' kernels.
    """

    parts: tuple[Value, ...]
    totals: tuple[Value, ...]
    nodes: frozenset[Node]
    by: str = ""


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


def with_libraries(all_reduces: Sequence[AllReduce], device_of: Mapping[Node, tuple[Device, str]]
                   ) -> list[AllReduce]:
    """``all_reduces`` with the libraries of their devices: where each has a part and needs the
    sum."""
    home = {v: device for n, (device, _) in device_of.items() for v in n.outputs}
    names: dict[tuple[Device, ...], str] = {}

    def library(each: AllReduce) -> str:
        devices = tuple(home[v] for v in each.parts)
        same = len(set(devices)) == len(devices) and set(devices) == {home[v] for v in each.totals}
        if not same or len({d.name.partition(":")[0] for d in devices}) > 1:
            return ""
        if devices not in names:
            names[devices] = backend_of(devices[0].name).adds_with(devices)
        return names[devices]
    return [each._replace(by=library(each)) for each in all_reduces]


def lines(all_reduces: Sequence[AllReduce]) -> list[str]:
    """A line for each way in which sums are made that several devices need."""
    ways = Counter((len(each.totals), each.by) for each in all_reduces if len(each.totals) > 1)
    return [f"{n} all-reduces a step over {n_devices} devices, by {by or COPIES}"
            for (n_devices, by), n in ways.items()]


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
