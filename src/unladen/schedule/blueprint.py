"""A plan before anything is allocated: what runs where, how many bytes that takes, how long."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout
from unladen.errors import InvalidArgument
from unladen.graph import passes, taps
from unladen.graph.graph import Graph, KVSpec, Node, Value
from unladen.graph.ops import get_op
from unladen.schedule import fit
from unladen.schedule.cut import choose_on_device, experts, shard
from unladen.schedule.cut.arena import ArenaPlan, plan_arena
from unladen.schedule.cut.segments import (
    ChangeStep,
    CopyStep,
    RunStep,
    Step,
    assign,
    inner_values,
    split,
)
from unladen.schedule.cut.through_device import Streamed, streamed
from unladen.schedule.needs import Need, needs_of
from unladen.schedule.options import Change, PlanOptions
from unladen.schedule.place import Choice, PlaceOptions, choose, host_and_others, numbers, place
from unladen.schedule.search import best
from unladen.schedule.search.cost import Costs, Prediction, decode_step, prefill_step
from unladen.schedule.search.units import Sizes
from unladen.schedule.trust.kernels import Kernels
from unladen.types import Limits

__all__ = ["Arenas", "Blueprint", "blueprint_of", "make_blueprint"]

log = logging.getLogger("unladen")

Arenas = Mapping[str, ArenaPlan]
"""By device."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """See the module. ``layers``: the device of each layer; ``choice`` what it follows from;
    ``streamed``: how large steps run, if otherwise; ``arenas`` of both ways. ``source``: the
    architecture's graph, before any pass and without taps."""

    graph: Graph
    limits: Limits
    layout: KVLayout
    options: PlanOptions
    devices: Sequence[Device]
    choice: Choice
    device_of: Mapping[Node, tuple[Device, str]]
    steps: Sequence[Step]
    arenas: Arenas
    needs: Sequence[Need]
    memory: fit.MemoryPlan
    streamed: Streamed | None = None
    streamed_arenas: Arenas = field(default_factory=dict)
    source: Graph = field(default_factory=lambda: Graph((), {}, {}, 0))

    def __repr__(self) -> str:
        return (f"<Blueprint: {numbers(self.layers)} layers; {self.memory!r}; steps of up to "
                f"{self.limits.n_tokens} tokens>")

    def _repr_svg_(self) -> str:
        """A notebook shows this: the picture of a :class:`PlanReport`."""
        from unladen.schedule.show.report import PlanReport  # it imports this module
        return PlanReport.of(self, "plan", self.limits.n_keys).svg()

    @property
    def layers(self) -> Sequence[Device]:
        """The device of each layer."""
        return self.choice.layers

    def predict(self) -> tuple[Prediction, Prediction]:
        """A decode step of one token and a prefill step of as many as it takes, on paper, whose
        logits are read."""
        graph = choose_on_device.without(self.graph)
        decode, prefill = _costs(self.limits, self.layout)
        is_large = self.streamed is not None and self.limits.n_tokens >= self.streamed.n_tokens
        large = self.streamed.steps if self.streamed is not None and is_large else self.steps
        return (decode.predict(graph, choose_on_device.steps_without(self.steps)),
                prefill.predict(graph, choose_on_device.steps_without(large)))

    def arena_bytes(self) -> dict[str, int]:
        """What each device's arena takes: one way or the other is under way."""
        return {name: max(a.nbytes, self.streamed_arenas.get(name, a).nbytes)
                for name, a in self.arenas.items()}

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
            if self.streamed is not None and (large := self.streamed.device_of[node][0]) != device:
                why += f"; {large.name} in steps of {self.streamed.n_tokens} tokens or more"
            lines.append(f"{node.name:28} {node.op:12} {device.name:12} {why}")
        return "\n".join(lines)

    def offloaded(self) -> list[str]:
        """A line for each device other than the host's that has layers or streams weights, and one
        that says where embeddings and head are; nothing where all is on the host."""
        names = [d.name for d in self.layers if not d.is_host]
        streamed = [] if self.streamed is None else self.streamed.lines()
        lines = [f"offloaded {names.count(name)}/{len(self.layers)} layers to {name}"
                 for name in dict.fromkeys(names)]
        if not lines:
            return streamed
        away = sum(d.is_host and not self.layers[n.layer].is_host
                   for n, (d, _) in self.device_of.items()
                   if n.op == "moe" and "first_expert" not in n.attrs)
        if away:
            lines.append(f"experts of {away} of these layers on the CPU")
        parts = {n.layer for n in self.graph.nodes if "first_expert" in n.attrs}
        if parts:
            lines.append(f"experts of {len(parts)} layers divided over the devices")
        ends = self.ends()
        return [*lines, *streamed, f"embeddings on {ends[0]}, output head on {ends[1]}"]

    def ends(self) -> tuple[str, str]:
        """The devices of the embeddings and of the output head, "" where there are none."""
        first, last = (next((d.name for n, (d, _) in self.device_of.items()
                             if n.layer == layer and n.weights), "") for layer in (-1, -2))
        return first, last


def make_blueprint(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions,
                   choice: Choice | None = None) -> Blueprint:
    """Place and split ``graph`` and count bytes; allocates nothing, but for a ``probe``'s while.
    ``choice`` of another blueprint of the model, None: what is best. Raises
    :class:`InvalidArgument`, :class:`UnsupportedOp`."""
    devices = options.open_devices()
    fusions = frozenset.intersection(*(backend_of(d.name).fusions for d in devices))
    marked = taps.mark(graph, options.looked, options.changes)
    fused = experts.divide(passes.apply(marked, fusions), devices, options.place)
    known = choice or _choose(fused, limits, layout, options, devices)
    made = blueprint_of(fused, limits, layout, options, devices, known, told=choice is not None)
    return replace(made, source=graph)


def retapped(made: Blueprint, looked: Iterable[str], changes: Mapping[str, Change]) -> Blueprint:
    """``made`` once more, with other taps: everything is placed as it was."""
    options = replace(made.options, looked=tuple(looked), changes=changes)
    return make_blueprint(made.source, made.limits, made.layout, options, made.choice)


def _check_deterministic(devices: Sequence[Device]) -> None:
    others = [d.name for d in devices if not backend_of(d.name).is_deterministic]
    if others:
        raise InvalidArgument(
            f"deterministic=True, but on {', '.join(others)} sums depend on what is in a step",
            hint='use devices=["cpu"]')


def blueprint_of(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions,
                 devices: Sequence[Device], choice: Choice, *, quiet: bool = False,
                 told: bool = False) -> Blueprint:
    """The blueprint of one ``choice`` for a graph whose fusions are done. ``quiet``: it is only
    compared with others. ``told``: what falls back, and what is converted, was reported before."""
    graph, shards = _shard(choose_on_device.without(graph), devices, options.place, choice)
    placement = place(graph, devices, options.place, choice, shards)
    reference = backend_of("reference").open("reference", options.backend)
    kernels = Kernels({v: name for name, v in graph.inputs.items()}, layout, options.backend,
                      options.strict, options.probe and not quiet)
    device_of = assign(graph, placement, [*devices, reference], strict=options.strict,
                       quiet=quiet or told, runs=kernels.runs)
    graph, device_of = choose_on_device.add(graph, device_of, kernels.runs)
    used = list({d.name: d for d in [*devices, *(d for d, _ in device_of.values())]}.values())
    if options.backend.deterministic:
        _check_deterministic(used)
    steps = split(graph, device_of)
    needs = needs_of({n: d for n, (d, _) in device_of.items()}, use_mmap=options.use_mmap,
                     strict=options.strict, quiet=quiet or told, format_of=kernels.format_of)
    plain = Blueprint(graph, limits, layout, options, used, choice, device_of, steps,
                      _arenas(graph, steps, used, limits, kernels), needs, fit.MemoryPlan(()))
    plain = replace(plain, memory=_memory(plain))
    wish = options.place.stream_weights
    # While "auto" looks for a placement, only what is wished for needs room.
    return plain if wish is False or (quiet and wish == "auto") else _with_streaming(plain, kernels)


def _with_streaming(plain: Blueprint, kernels: Kernels) -> Blueprint:
    """``plain`` with its large steps streamed, through the device where that is fastest; "auto" may
    find that it isn't, or has no room."""
    graph, wish = plain.graph, plain.options.place.stream_weights
    _, others = host_and_others(plain.devices, plain.options.place)
    found: list[tuple[float, Blueprint]] = []
    for target in [d for d in others if not d.is_host]:
        large = streamed(graph, plain.device_of, plain.layers, target, plain.needs, kernels)
        if large is None or (wish == "auto" and not target.memory_bytes):
            continue
        made = replace(plain, streamed=large, streamed_arenas=_arenas(
            graph, large.steps, plain.devices, plain.limits, kernels))
        made = replace(made, memory=_memory(made))
        if wish == "auto":
            left = made.memory.left(fit.room(plain.devices))
            n_tokens = _least_tokens(plain, large)
            if n_tokens is None or min(left.values()) < 0:
                continue
            made = replace(made, streamed=replace(large, n_tokens=n_tokens))
        found.append((made.predict()[1].seconds, made))
    return min(found, key=lambda pair: pair[0])[1] if found else plain


def _least_tokens(plain: Blueprint, large: Streamed) -> int | None:
    """The size of step from which on ``large`` is predicted to be faster; None: it never is."""
    n, least = plain.limits.n_tokens, None
    while n > 1:
        costs = Costs(prefill_step(plain.limits, plain.layout, n), plain.layout)
        if (costs.predict(plain.graph, large.steps).seconds
                >= costs.predict(plain.graph, plain.steps).seconds):
            break
        n, least = n // 2, n
    return least


def _arenas(graph: Graph, steps: Sequence[Step], devices: Sequence[Device], limits: Limits,
            kernels: Kernels) -> Arenas:
    stored: dict[Value, int] = {}
    for run, inner in inner_values(graph, steps).items():
        nodes = [kernels.as_placed(run.device, n) for n in run.nodes]
        stored |= backend_of(run.device.name).stored_bytes(nodes, inner, limits, kernels.options)
    return {d.name: plan_arena(graph, steps, d.name, limits, _scratch(steps, d, limits, kernels),
                               stored)
            for d in devices}


def _memory(made: Blueprint) -> fit.MemoryPlan:
    rings = {} if made.streamed is None else made.streamed.ring_bytes()
    ways = [(made.steps, made.device_of)]
    if made.streamed is not None:
        ways.append((made.streamed.steps, made.streamed.device_of))
    # What is on its way into a ring waits on the host.
    staging = sum(rings.values()) + max(_staging(made.graph, steps, device_of, made.limits)
                                        for steps, device_of in ways)
    return fit.count(made.devices, _states(made.device_of), made.layout, _weight_bytes(made.needs),
                     made.arena_bytes(), staging, rings, _slot_bytes(made.device_of, made.limits))


def _choose(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions,
            devices: Sequence[Device]) -> Choice:
    """What the options say, and where they leave it open, what is predicted to be fastest."""
    wished = choose(graph.n_layers, devices, options.place)
    host, others = host_and_others(devices, options.place)
    is_open = options.place.n_gpu_layers == "auto" or options.place.offload_order == "cost"
    if not is_open or host in others:
        return wished
    unknown = _unknown(devices, options)
    if unknown.issuperset(others):
        return choose(graph.n_layers, devices, options.place, 0)
    costs = _costs(limits, layout)

    def excess(choice: Choice) -> dict[str, int]:
        memory = blueprint_of(graph, limits, layout, options, devices, choice, quiet=True).memory
        return {name: -n for name, n in memory.left(room).items()}

    def seconds(choice: Choice) -> float:
        divided, shards = _shard(graph, devices, options.place, choice)
        placement = place(divided, devices, options.place, choice, shards)
        steps = split(divided, {n: (d, "") for n, d in placement.device_of.items()})
        return costs[0].predict(divided, steps).seconds

    room = fit.room([d for d in devices if d not in unknown]) | {d.name: 0 for d in unknown}
    whole = options.place.tensor_split is None and options.place.split_mode not in shard.MODES
    if options.place.n_gpu_layers == "auto" and whole:
        return best.best(graph, devices, options.place, costs, room,
                         Sizes(limits, layout, options.use_mmap), excess)
    found = best.candidates(graph.n_layers, devices, options.place)
    return best.fastest(found, seconds, excess)


def _unknown(devices: Sequence[Device], options: PlanOptions) -> set[Device]:
    """The devices that "auto" leaves alone because they don't say how much memory they have; none
    where there is no host to do their work."""
    found = {d for d in devices if not d.is_host and not d.memory_bytes}
    if options.place.n_gpu_layers != "auto" or not any(d.is_host for d in devices):
        return set()
    for name in sorted(d.name for d in found):
        log.warning("%s doesn't say how much memory it has: no layers go there unasked (hint: say "
                    "how many with n_gpu_layers)", name)
    return found


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
    passing += [s.value for s in steps if isinstance(s, ChangeStep) and not s.device.is_host]
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


def _weight_bytes(needs: Sequence[Need]) -> dict[str, tuple[int, int]]:
    sizes: dict[str, tuple[int, int]] = {}
    for need in needs:
        mapped, allocated = sizes.get(need.device.name, (0, 0))
        sizes[need.device.name] = (mapped + need.nbytes * need.mapped,
                                   allocated + need.nbytes * (not need.mapped))
    return sizes
