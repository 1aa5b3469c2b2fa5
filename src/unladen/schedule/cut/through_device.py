"""Weights of the host's layers that pass through a faster device: a second way to run large steps.

In a step of many tokens the host takes longer for a product than it takes to send the matrix to a
graphics card and multiply there. In such a step the card runs those nodes of the host's layers that
touch no cache. Caches, and attention over them, stay where the next small step needs them. The card
has two sets of buffers for the weights of one run of nodes: while it computes with one, the host
fills the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, Weight
from unladen.graph.ops import get_op
from unladen.quants import file_format
from unladen.schedule.cut.all_reduce import AllReduce
from unladen.schedule.cut.segments import FetchStep, RunStep, Step, split
from unladen.schedule.needs import Need
from unladen.schedule.trust.kernels import Kernels

N_SLOTS = 2
"""Sets of buffers: one that the device reads, one that the host fills."""

STREAMED = "streamed"
"""Why a node is on a device in large steps."""

_LAYER = re.compile(r"(^|:)blk\.\d+\.")
"""The part of a weight's name that has the number of the layer. A file's key may come before it."""

Where = Mapping[Node, tuple[Device, str]]
"""The device of each node, and why it is there."""

SlotKey = tuple[str, str, str, tuple[int, ...], int]
"""What identifies a buffer of a slot: its device, the weight's name without the layer, format,
shape, and a number among equal ones. Layers use the same buffers, one after another."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """Where the nodes run in a large step (``device_of``), how it runs (``steps``), and the buffers
    of one ``slot`` of the ring. ``n_tokens``: a step of this many tokens or more is large."""

    device_of: Where
    steps: Sequence[Step]
    slot: Mapping[SlotKey, Need]
    n_tokens: int = 2

    def lines(self) -> list[str]:
        """A line for each device that says what is streamed through it."""
        layers: dict[str, set[int]] = {}
        for step in self.steps:
            if isinstance(step, FetchStep):
                layers.setdefault(step.run.device.name, set()).update(
                    n.layer for n in step.run.nodes if self.device_of[n][1] == STREAMED)
        sizes = self.ring_bytes()
        return [f"in steps of {self.n_tokens} tokens or more, {name} computes products of "
                f"{len(found)} more layers, their weights streamed through "
                f"{sizes[name] / 2**20:,.1f} MiB"
                for name, found in layers.items()]

    def ring_bytes(self) -> dict[str, int]:
        """By device, the bytes of all its slots."""
        sizes: dict[str, int] = {}
        for need in self.slot.values():
            sizes[need.device.name] = sizes.get(need.device.name, 0) + N_SLOTS * need.nbytes
        return sizes


def streamed(graph: Graph, device_of: Where, layers: Sequence[Device], target: Device,
             needs: Sequence[Need], kernels: Kernels, all_reduces: Sequence[AllReduce] = ()
             ) -> Streamed | None:
    """The large step of a plan. Nodes on the host that belong to another device's layer go to that
    device; nodes of the host's layers go to ``target``. None where no node on the host can go to
    either."""
    there = {(n.device.name, n.weight.name): n.quant for n in needs}

    def can_move(node: Node, home: Device, device: Device) -> bool:
        return (home.is_host and node.layer >= 0 and node.state is None
                and not get_op(node.op).state_size(node)
                and kernels.could_take(device, node)
                and all(file_format(kernels.format_of(device, node, w) or "")
                        == there[home.name, w.name] for w in node.weights.values()))
    where = dict(device_of)
    for node, (home, _) in device_of.items():
        layer = layers[node.layer] if node.layer >= 0 else target
        device = target if layer.is_host else layer
        if can_move(node, home, device):
            where[node] = device, STREAMED
    found: dict[SlotKey, Need] = {}
    steps = list(_with_fetches(split(graph, where, all_reduces), device_of, there, found))
    return Streamed(where, steps, found) if found else None


def slot_keys(needs: Sequence[Need]) -> list[SlotKey]:
    """The buffer of a slot that each of ``needs``, all of one run, is fetched into."""
    seen: dict[tuple[str, str, str, tuple[int, ...]], int] = {}
    keys = []
    for need in needs:
        name = _LAYER.sub(r"\1", need.weight.name)
        kind = need.device.name, name, need.quant, need.weight.shape
        seen[kind] = seen.get(kind, 0) + 1
        keys.append((*kind, seen[kind]))
    return keys


def _with_fetches(steps: Sequence[Step], device_of: Where, there: Mapping[tuple[str, str], str],
                  found: dict[SlotKey, Need]) -> Iterator[Step]:
    """``steps`` with fetches. Right after each run that uses fetched weights comes the fetch for
    the next such run of its device: the host copies while the device runs. The first fetch comes
    before all other steps. Where weights arrive while kernels run, a fetch comes one run earlier,
    as soon as the run that has its slot is started: so the host's own work doesn't delay it."""
    fetches: dict[str, list[FetchStep]] = {}
    for step in steps:
        if isinstance(step, RunStep) and (wanted := _wanted(step, device_of, there)):
            mine = fetches.setdefault(step.device.name, [])
            needs = tuple(Need(step.device, w, there[home.name, w.name], mapped=False)
                          for w, home in wanted)
            mine.append(FetchStep(step, tuple(home for _, home in wanted), needs,
                                  len(mine) % N_SLOTS))
            found |= zip(slot_keys(needs), needs, strict=True)
    following: dict[RunStep, FetchStep] = {}
    for mine in fetches.values():
        n = N_SLOTS if mine[0].run.device.writes_ahead else N_SLOTS - 1
        yield from mine[:n]
        following |= {a.run: b for a, b in zip(mine, mine[n:], strict=False)}
    for step in steps:
        yield step
        if isinstance(step, RunStep) and step in following:
            yield following[step]


def _wanted(run: RunStep, device_of: Where, there: Mapping[tuple[str, str], str]
            ) -> Sequence[tuple[Weight, Device]]:
    """The weights of ``run`` that only a host holds, and which host that is."""
    found: dict[str, tuple[Weight, Device]] = {}
    for node in run.nodes:
        home = device_of[node][0]
        if home != run.device:
            found |= {w.name: (w, home) for w in node.weights.values()
                      if (run.device.name, w.name) not in there}
    return list(found.values())
