"""Counts seconds and bytes of the parts that a search for the best placement moves: layers, and the
nodes before and after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Device, KVLayout
from unladen.graph.graph import AFTER_LAYERS, BEFORE_LAYERS, Graph, Node, Value
from unladen.graph.ops import get_op
from unladen.schedule import fit
from unladen.schedule.cut.arena import plan_arena
from unladen.schedule.cut.segments import Step, split
from unladen.schedule.needs import needs_of
from unladen.schedule.place import PlaceOptions, pins
from unladen.schedule.search.cost import Costs
from unladen.types import Limits

TIE = 1e-13
"""Weight of a prefill step beside a decode step: prefill decides between placements whose decode
steps take equally long. A prefill step takes at most about 10,000 times as long, so it never makes
up for a decode step that is slower by more than 1e-9 of its time."""


@dataclass(frozen=True, slots=True)
class Both:
    """Costs of a decode step, with those of a prefill step added at the weight :data:`TIE`."""

    decode: Costs
    prefill: Costs

    def nodes(self, nodes: Sequence[Node], device: Device) -> float:
        """Seconds of ``nodes`` on ``device``."""
        return sum(self.decode.node(n, device).seconds + TIE * self.prefill.node(n, device).seconds
                   for n in nodes)

    def copy(self, value: Value, source: Device, target: Device) -> float:
        """Seconds of a copy."""
        return (self.decode.copy(value, source, target)
                + TIE * self.prefill.copy(value, source, target))

    def read(self, value: Value, device: Device) -> float:
        """Seconds of reading an output."""
        return self.decode.read(value, device) + TIE * self.prefill.read(value, device)

    def launch(self, device: Device) -> float:
        """Seconds of a segment's start."""
        return (1 + TIE) * self.decode.launch(device)

    def play(self, steps: Sequence[Step], device: Device) -> float:
        """Seconds until ``device`` is done with its part of ``steps``."""
        return (self.decode.play(steps).until(device)
                + TIE * self.prefill.play(steps).until(device))


@dataclass
class Sizes:
    """Bytes of weights and caches, for steps up to ``limits`` and caches of ``layouts``."""

    limits: Limits
    layouts: Mapping[int, KVLayout]
    use_mmap: bool

    def weights(self, nodes: Sequence[Node], device: Device) -> int:
        """Bytes of the nodes' weights on ``device``, each once."""
        found = needs_of(dict.fromkeys(nodes, device), use_mmap=self.use_mmap, quiet=True)
        return sum(n.nbytes for n in found if not n.mapped)

    def caches(self, nodes: Sequence[Node]) -> int:
        """Bytes of the nodes' caches, each once, and of their recurrent state."""
        specs = {n.state.layer: n.state for n in nodes if n.state is not None}
        slots = 4 * self.limits.n_slots * sum(get_op(n.op).state_size(n) for n in nodes)
        return sum(sum(fit.kv_bytes(s, self.layouts[s.layer])) for s in specs.values()) + slots


class Groups:
    """The nodes before and after the layers, and the values that flow between all of them.

    ``everywhere``: values made before the layers that more than the first layer reads;
    ``entering``: those that only the first layer reads. ``hidden``: values that a layer hands to
    the next one; those of the first layer stand for all layers.
    """

    def __init__(self, graph: Graph) -> None:
        self.embed = [n for n in graph.nodes if n.layer == BEFORE_LAYERS]
        self.head = [n for n in graph.nodes if n.layer == AFTER_LAYERS]
        self.outputs = list(graph.outputs.values())
        made = {v: n.layer for n in graph.nodes for v in n.outputs}
        last = {v: graph.n_layers if n.layer == AFTER_LAYERS else n.layer for n in graph.nodes
                for v in n.inputs if n.layer != BEFORE_LAYERS}
        early = [v for v, layer in made.items() if layer == BEFORE_LAYERS and v in last]
        self.everywhere = [v for v in early if last[v] > 0]
        self.entering = [v for v in early if last[v] == 0]
        self.hidden = [v for v, layer in made.items() if layer == 0 and last.get(v, 0) > 0]


@dataclass
class Units:
    """Every layer on every device, in arrays over the layers by device name: ``seconds`` that the
    layer takes there without the start of its first segment, ``nbytes`` that it needs there, and
    ``pinned`` bytes that options put there wherever the layer goes."""

    graph: Graph
    devices: Sequence[Device]
    options: PlaceOptions
    n_cpu_moe: int
    both: Both
    sizes: Sizes
    seconds: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    nbytes: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    pinned: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    _arenas: dict[object, int] = field(default_factory=dict)
    _kinds: list[int] = field(default_factory=list)
    """A layer of each kind."""

    def __post_init__(self) -> None:
        self._pins = {n: d for n, (d, _) in pins(self.graph, self.devices, self.options,
                                                 self.n_cpu_moe).items() if n.layer >= 0}
        layers: list[list[Node]] = [[] for _ in range(self.graph.n_layers)]
        for node in self.graph.nodes:
            if node.layer >= 0:
                layers[node.layer].append(node)
        kinds = {tuple((n.op, *(v.shape for v in n.outputs)) for n in nodes): i
                 for i, nodes in enumerate(layers)}
        self._kinds = list(kinds.values())
        for device in self.devices:
            rows = [self._layer(nodes, device) for nodes in layers]
            columns = np.array(rows, np.float64).reshape(-1, 3).T
            self.seconds[device.name], self.nbytes[device.name], self.pinned[device.name] = columns

    def _layer(self, nodes: Sequence[Node], device: Device) -> tuple[float, int, int]:
        where = {n: (self._pins.get(n, device), "") for n in nodes}
        steps = split(Graph(nodes, {}, {}, 0), where)
        total = self.both.play(steps, device) - self.both.launch(device)
        free = [n for n in nodes if n not in self._pins]
        fixed = [n for n in nodes if self._pins.get(n) == device]
        return total, self._bytes(free, device), self._bytes(fixed, device)

    def _bytes(self, nodes: Sequence[Node], device: Device) -> int:
        return self.sizes.weights(nodes, device) + self.sizes.caches(nodes)

    def arena(self, device: Device, *, layers: bool, embed: bool, head: bool) -> int:
        """A lower bound of the bytes of the values that live on ``device`` when it has these parts
        of the graph. ``layers``: it has some layers; the values of one layer of the smallest kind
        are counted."""
        has_pins = device in self._pins.values()
        key = device.name if has_pins else "", layers, embed, head
        if key not in self._arenas:
            sizes = [self._arena(device, {BEFORE_LAYERS: embed, AFTER_LAYERS: head})]
            if layers:
                sizes.append(min(self._arena(device, {i: True}) for i in self._kinds))
            self._arenas[key] = max(sizes)
        return self._arenas[key]

    def _arena(self, device: Device, here: Mapping[int, bool]) -> int:
        elsewhere = Device("elsewhere", "", 0)
        where = {n: (self._pins.get(n) or (device if here.get(n.layer) else elsewhere), "")
                 for n in self.graph.nodes}
        steps = split(self.graph, where)
        return plan_arena(self.graph, steps, device.name, self.sizes.limits, 0, {}).nbytes
