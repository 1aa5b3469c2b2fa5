"""A plan before anything is allocated: what runs where, how many bytes that takes, how long."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout, Options
from unladen.graph import passes
from unladen.graph.graph import Graph, KVSpec, Node
from unladen.graph.ops import get_op
from unladen.schedule import auto, experts, fit, shard, weights
from unladen.schedule.cost import Costs, Prediction, decode_step, prefill_step
from unladen.schedule.kernels import Kernels
from unladen.schedule.memory import ArenaPlan, plan_arena
from unladen.schedule.place import Choice, PlaceOptions, choose, host_and_others, place
from unladen.schedule.split import CopyStep, RunStep, Step, assign, split
from unladen.schedule.units import Sizes
from unladen.types import Limits

log = logging.getLogger("unladen")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Everything that decides a plan beside the graph. ``devices``: full names, or devices as they
    are (pretended ones). ``probe``: try each kernel on its device first."""

    devices: Sequence[str | Device] = ("cpu:0",)
    place: PlaceOptions = field(default_factory=PlaceOptions)
    backend: Options = field(default_factory=Options)
    use_mmap: bool = True
    strict: bool = False
    probe: bool = False

    def open_devices(self) -> list[Device]:
        """The devices, made ready; raises :class:`BackendNotInitialised`."""
        return [d if isinstance(d, Device) else backend_of(d).open(d, self.backend)
                for d in self.devices]


@dataclass(frozen=True, slots=True)
class Draft:
    """See the module. ``layers``: the device of each layer; ``choice`` what it follows from."""

    graph: Graph
    limits: Limits
    layout: KVLayout
    options: PlanOptions
    devices: Sequence[Device]
    choice: Choice
    device_of: Mapping[Node, tuple[Device, str]]
    steps: Sequence[Step]
    arenas: Mapping[str, ArenaPlan]
    needs: Sequence[weights.Need]
    memory: fit.MemoryPlan

    @property
    def layers(self) -> Sequence[Device]:
        """The device of each layer."""
        return self.choice.layers

    def predict(self) -> tuple[Prediction, Prediction]:
        """A decode step of one token and a prefill step of as many as it takes, on paper."""
        return tuple(c.predict(self.graph, self.steps)  # type: ignore[return-value]  # it is a pair
                     for c in _costs(self.limits, self.layout))

    def caches(self) -> dict[int, tuple[KVSpec, Device]]:
        """The cache of every layer that has one, and where it is."""
        return {node.state.layer: (node.state, device)
                for node, (device, _) in self.device_of.items() if node.state is not None}

    def slots(self) -> dict[str, tuple[int, Device]]:
        """By node with recurrent state, the bytes of all its slots, and where they are."""
        return _slots(self.device_of, self.limits)

    def n_offloaded(self) -> int:
        """Layers on devices other than the host."""
        return sum(not d.is_host for d in self.layers)

    def explain(self) -> str:
        """Each node, its device, and why it is there."""
        lines = []
        for node in self.graph.nodes:
            device, why = self.device_of[node]
            lines.append(f"{node.name:28} {node.op:12} {device.name:12} {why}")
        return "\n".join(lines)

    def offloaded(self) -> list[str]:
        """A line for each device other than the host's that has layers, and one that says where
        embeddings and head are; nothing where all is on the host."""
        names = [d.name for d in self.layers if not d.is_host]
        lines = [f"offloaded {names.count(name)}/{len(self.layers)} layers to {name}"
                 for name in dict.fromkeys(names)]
        if not lines:
            return []
        away = sum(d.is_host and not self.layers[n.layer].is_host
                   for n, (d, _) in self.device_of.items()
                   if n.op == "moe" and "first_expert" not in n.attrs)
        if away:
            lines.append(f"experts of {away} of these layers on the CPU")
        parts = {n.layer for n in self.graph.nodes if "first_expert" in n.attrs}
        if parts:
            lines.append(f"experts of {len(parts)} layers divided over the devices")
        ends = self.ends()
        return [*lines, f"embeddings on {ends[0]}, output head on {ends[1]}"]

    def ends(self) -> tuple[str, str]:
        """The devices of the embeddings and of the output head, "" where there are none."""
        first, last = (next((d.name for n, (d, _) in self.device_of.items()
                             if n.layer == layer and n.weights), "") for layer in (-1, -2))
        return first, last


def draft(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions) -> Draft:
    """Place and split ``graph`` and count bytes; allocates nothing, but for a ``probe``'s while.
    Raises :class:`InvalidArgument`, :class:`UnsupportedOp`."""
    devices = options.open_devices()
    fusions = frozenset.intersection(*(backend_of(d.name).fusions for d in devices))
    graph = experts.divide(passes.apply(graph, fusions), devices, options.place)
    choice = _choose(graph, limits, layout, options, devices)
    return drafted(graph, limits, layout, options, devices, choice)


def drafted(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions,
            devices: Sequence[Device], choice: Choice, *, quiet: bool = False) -> Draft:
    """The draft of one ``choice`` for a graph whose fusions are done."""
    graph, shards = _shard(graph, devices, options.place, choice)
    placement = place(graph, devices, options.place, choice, shards)
    reference = backend_of("reference").open("reference", options.backend)
    kernels = Kernels({v: name for name, v in graph.inputs.items()}, layout, options.backend,
                      options.strict, options.probe and not quiet)
    device_of = assign(graph, placement, [*devices, reference], strict=options.strict, quiet=quiet,
                       runs=kernels.runs)
    used = list({d.name: d for d in [*devices, *(d for d, _ in device_of.values())]}.values())
    steps = split(graph, device_of)
    needs = weights.needs({n: d for n, (d, _) in device_of.items()}, use_mmap=options.use_mmap,
                          strict=options.strict, quiet=quiet, format_of=kernels.format_of)
    arenas = {d.name: plan_arena(graph, steps, d.name, limits,
                                 _scratch(steps, d, limits, kernels)) for d in used}
    memory = fit.count(used, _states(device_of), layout, _weight_bytes(needs),
                       {name: a.nbytes for name, a in arenas.items()},
                       _staging(graph, steps, device_of, limits), _slot_bytes(device_of, limits))
    return Draft(graph, limits, layout, options, used, choice, device_of, steps, arenas, needs,
                 memory)


def _choose(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions,
            devices: Sequence[Device]) -> Choice:
    """What the options say, and where they leave it open, what is predicted to be fastest."""
    wished = choose(graph.n_layers, devices, options.place)
    host, others = host_and_others(devices, options.place)
    is_open = options.place.n_gpu_layers == "auto" or options.place.offload_order == "cost"
    if not is_open or host in others or options.place.split_mode in shard.MODES:
        return wished
    costs = _costs(limits, layout)

    def excess(choice: Choice) -> dict[str, int]:
        memory = drafted(graph, limits, layout, options, devices, choice, quiet=True).memory
        return {name: -n for name, n in memory.left(room).items()}

    def seconds(choice: Choice) -> float:
        placement = place(graph, devices, options.place, choice)
        steps = split(graph, {n: (d, "") for n, d in placement.device_of.items()})
        return costs[0].predict(graph, steps).seconds

    room = {name: n - (0 if d.is_host else d.memory_bytes // fit.MARGIN)
            for d in devices for name, n in fit.free_bytes([d]).items()}
    if options.place.n_gpu_layers == "auto" and options.place.tensor_split is None:
        return auto.best(graph, devices, options.place, costs, room,
                         Sizes(limits, layout, options.use_mmap), excess)
    found = auto.candidates(graph.n_layers, devices, options.place)
    return auto.fastest(found, seconds, excess)


def _shard(graph: Graph, devices: Sequence[Device], options: PlaceOptions, choice: Choice
           ) -> tuple[Graph, Mapping[Node, Device]]:
    if options.split_mode not in shard.MODES:
        return graph, {}
    _, others = host_and_others(devices, options)
    layers = {i for i, d in enumerate(choice.layers) if d in others}
    return shard.apply(graph, options, layers, others)


def _costs(limits: Limits, layout: KVLayout) -> tuple[Costs, Costs]:
    return (Costs(decode_step(limits, layout), layout), Costs(prefill_step(limits, layout), layout))


def _scratch(steps: Sequence[Step], device: Device, limits: Limits, kernels: Kernels) -> int:
    nodes = [kernels.as_placed(device, n) for s in steps
             if isinstance(s, RunStep) and s.device == device for n in s.nodes]
    backend = backend_of(device.name)
    return max((backend.scratch_bytes(n, limits, kernels.options) for n in nodes), default=0)


def _staging(graph: Graph, steps: Sequence[Step], device_of: Mapping[Node, tuple[Device, str]],
             limits: Limits) -> int:
    """The largest value that passes through the host on its way between devices, or to the
    caller."""
    passing = [s.value for s in steps if isinstance(s, CopyStep)
               and not (s.source.is_host and s.target.is_host)]
    passing += [v for n, (d, _) in device_of.items() if not d.is_host for v in n.outputs
                if v in graph.outputs.values()]
    return max((4 * limits.count(v.shape) for v in passing), default=0)


def _states(device_of: Mapping[Node, tuple[Device, str]]) -> dict[str, list[KVSpec]]:
    states: dict[str, dict[int, KVSpec]] = {}
    for node, (device, _) in device_of.items():
        if node.state is not None:
            states.setdefault(device.name, {})[node.state.layer] = node.state
    return {name: list(by_layer.values()) for name, by_layer in states.items()}


def _slots(device_of: Mapping[Node, tuple[Device, str]], limits: Limits
           ) -> dict[str, tuple[int, Device]]:
    sizes = ((node, device, get_op(node.op).state_size(node))
             for node, (device, _) in device_of.items())
    return {node.name: (4 * size * limits.n_slots, device) for node, device, size in sizes if size}


def _slot_bytes(device_of: Mapping[Node, tuple[Device, str]], limits: Limits) -> dict[str, int]:
    total: dict[str, int] = {}
    for nbytes, device in _slots(device_of, limits).values():
        total[device.name] = total.get(device.name, 0) + nbytes
    return total


def _weight_bytes(needs: Sequence[weights.Need]) -> dict[str, tuple[int, int]]:
    sizes: dict[str, tuple[int, int]] = {}
    for need in needs:
        mapped, allocated = sizes.get(need.device.name, (0, 0))
        sizes[need.device.name] = (mapped + need.nbytes * need.mapped,
                                   allocated + need.nbytes * (not need.mapped))
    return sizes
