"""The blueprint of a graph: what runs where, how many bytes that takes, and how long. Nothing is
allocated for it. :mod:`unladen.schedule.blueprint_set` counts several graphs together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from unladen.backends import Hold, backend_of
from unladen.backends.base import Device, KVLayout
from unladen.errors import InvalidArgument, UnsupportedOp
from unladen.graph import passes, taps
from unladen.graph.asked import asked
from unladen.graph.graph import AFTER_LAYERS, BEFORE_LAYERS, Graph, KVSpec, Node, Value
from unladen.graph.ops import get_op
from unladen.schedule import fit
from unladen.schedule.cut import all_reduce, choose_on_device, experts, hot_experts, shard
from unladen.schedule.cut.all_reduce import AllReduce, Sharded
from unladen.schedule.cut.arena import ArenaPlan, plan_arena
from unladen.schedule.cut.crossings import Crossings, crossings
from unladen.schedule.cut.hot_experts import CachedLayer
from unladen.schedule.cut.order import late_sums
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
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import Choice, choose, host_and_others, numbers, place
from unladen.schedule.trust.kernels import Kernels
from unladen.types import MAIN, Limits

if TYPE_CHECKING:
    from unladen.schedule.search.cost import Costs, Prediction

__all__ = ["Arenas", "Blueprint", "Maker", "make_blueprint"]

log = logging.getLogger("unladen")

Arenas = Mapping[str, ArenaPlan]
"""The arena of each device, by its name."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The blueprint of one graph.

    ``graph``: the nodes that run, after all passes; ``source``: the architecture's graph, before
    any pass and without taps. ``choice``: the placement that was chosen. ``device_of``: each node's
    device, and why. ``steps`` and ``arenas``: how a step runs; ``streamed`` and
    ``streamed_arenas``: how large steps run, if they stream weights. ``needs``: the weights on each
    device. ``cached``: the layers whose most used experts are kept on their device. ``arena``:
    graphs whose blueprints say the same name take turns and share one arena. ``all_reduces``: the
    sums that several devices need.
    ``hold``: keeps the devices open until a plan does so, or until the blueprint is dropped.
    """

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
    arena: str = MAIN
    streamed: Streamed | None = None
    streamed_arenas: Arenas = field(default_factory=dict)
    cached: Sequence[CachedLayer] = ()
    source: Graph = field(default_factory=lambda: Graph((), {}, {}, 0))
    hold: Hold | None = field(default=None, compare=False)
    all_reduces: Sequence[AllReduce] = ()

    def __repr__(self) -> str:
        return (f"<Blueprint: {numbers(self.layers)} layers; {self.memory!r}; steps of up to "
                f"{self.limits.n_tokens} tokens>")

    @property
    def memory(self) -> fit.MemoryPlan:
        """The bytes by device that this graph takes alone."""
        return fit.count({self.arena: self.footprint()})

    def footprint(self) -> fit.Footprint:
        """The bytes that this graph takes, in a form that can be counted together with other
        graphs."""
        rings = {} if self.streamed is None else self.streamed.ring_bytes()
        ways = [(self.steps, self.device_of)]
        if self.streamed is not None:
            ways.append((self.streamed.steps, self.streamed.device_of))
        # Weights on their way into a ring pass through memory of the host.
        staging = {"rings": sum(rings.values()),
                   "passing": max(_passing(self.graph, steps, device_of, self.limits)
                                  for steps, device_of in ways)}
        staging |= {f"{name} {slot}": n for (name, slot), n in self.staging_bytes().items()}
        kv: dict[str, int] = {}
        layouts = self.layouts
        for spec, device in self.caches().values():
            kv[device.name] = kv.get(device.name, 0) + sum(
                fit.kv_bytes(spec, layouts[spec.layer]))
        for nbytes, device in self.slots().values():
            kv[device.name] = kv.get(device.name, 0) + nbytes
        return fit.Footprint(self.devices, self.needs, kv, self.arena_bytes(), rings, staging,
                             self.arena)

    @property
    def layers(self) -> Sequence[Device]:
        """The device of each layer."""
        return self.choice.layers

    def predict(self) -> tuple[Prediction, Prediction]:
        """Predict a decode step of one token and a prefill step of the largest size, including the
        time to read their logits."""
        graph = choose_on_device.without(self.graph)
        decode, prefill = _costs(self.limits, self.layout)
        is_large = self.streamed is not None and self.limits.n_tokens >= self.streamed.n_tokens
        large = self.streamed.steps if self.streamed is not None and is_large else self.steps
        return (decode.predict(graph, choose_on_device.steps_without(self.steps)),
                prefill.predict(graph, choose_on_device.steps_without(large)))

    def arena_bytes(self) -> dict[str, int]:
        """Bytes of each device's arena: the larger of both ways, since only one of them runs at a
        time.
        """
        return {name: max(a.nbytes, self.streamed_arenas.get(name, a).nbytes)
                for name, a in self.arenas.items()}

    def crossings(self) -> list[Crossings]:
        """The values that go between devices: in the usual way and, if large steps stream weights,
        in their way.
        """
        ways = [self.steps] + ([] if self.streamed is None else [self.streamed.steps])
        return [crossings(steps, self.limits) for steps in ways]

    def staging_bytes(self) -> dict[tuple[str, int], int]:
        """Bytes of each staging buffer, by its device and number: the larger size of both ways."""
        sizes: dict[tuple[str, int], int] = {}
        for way in self.crossings():
            for device, found in way.staging.items():
                for slot, n in enumerate(found):
                    sizes[device, slot] = max(n, sizes.get((device, slot), 0))
        return sizes

    def with_blocks(self, n_blocks: int) -> Blueprint:
        """The same blueprint with a cache of ``n_blocks`` blocks; nothing else depends on their
        number."""
        return replace(self, limits=replace(self.limits, n_blocks=n_blocks),
                       layout=replace(self.layout, n_blocks=n_blocks))

    @property
    def layouts(self) -> Mapping[int, KVLayout]:
        """How the cache of each layer lies."""
        return fit.layouts(self.graph.nodes, self.limits, self.layout)

    def caches(self) -> dict[int, tuple[KVSpec, Device]]:
        """The cache of every layer that has one, and where it is."""
        return {node.state.layer: (node.state, device)
                for node, (device, _) in self.device_of.items() if node.state is not None}

    def slots(self) -> dict[str, tuple[int, Device]]:
        """The bytes of all slots and the device of each node with recurrent state, by its name."""
        sizes = ((node, device, get_op(node.op).state_size(node))
                 for node, (device, _) in self.device_of.items())
        return {node.name: (4 * size * self.limits.n_slots, device)
                for node, device, size in sizes if size}

    def let_go(self) -> None:
        """Stop keeping the devices open, because a plan keeps them open or they aren't needed."""
        if self.hold is not None:
            self.hold.release()

    def n_offloaded(self) -> int:
        """Layers on devices other than the host."""
        return sum(not d.is_host for d in self.layers)

    def held_on(self, device: str) -> set[int]:
        """The layers that ``device`` has, or has a part of where devices divide them."""
        return shard.held_on(device, self.layers, self.device_of, self.options.place)

    def explain(self) -> str:
        """Each node, its device, and why it is there."""
        lines = []
        added = {n: a.by or all_reduce.COPIES for a in self.all_reduces for n in a.nodes}
        for node in self.graph.nodes:
            device, why = self.device_of[node]
            why += f"; all-reduce by {added[node]}" if node in added else ""
            if self.streamed is not None and (large := self.streamed.device_of[node][0]) != device:
                why += f"; {large.name} in steps of {self.streamed.n_tokens} tokens or more"
            lines.append(f"{node.name:28} {node.op:12} {device.name:12} {why}")
        return "\n".join(lines)

    def offloaded(self) -> list[str]:
        """A line for each device other than the host's that has layers or streams weights, and a
        line that says where embeddings and head are. No lines where all is on the host."""
        used = {(n.layer, d) for n, (d, _) in self.device_of.items()}
        names = [d.name for i, d in enumerate(self.layers) if not d.is_host and (i, d) in used]
        streamed = [] if self.streamed is None else self.streamed.lines()
        sharing = [d.name for d in self.devices if not d.is_host and self.held_on(d.name)]
        n, ends = len(self.layers), self.ends()
        lines = [f"offloaded {names.count(x)}/{n} layers to {x}" for x in dict.fromkeys(names)]
        if 0 < len(lines) < len(sharing):
            lines = [f"{len(names)}/{n} layers divided over {', '.join(sharing)}"]
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
        lines += hot_experts.lines(self.cached)
        streamed += all_reduce.lines(self.all_reduces)
        return [*lines, *streamed, f"embeddings on {ends[0]}, output head on {ends[1]}"]

    def ends(self) -> tuple[str, str]:
        """The devices of the embeddings and of the output head; "" where the graph has none."""
        first, last = (next((d.name for n, (d, _) in self.device_of.items()
                             if n.layer == layer and n.weights), "")
                       for layer in (BEFORE_LAYERS, AFTER_LAYERS))
        return first, last


def make_blueprint(graph: Graph, limits: Limits, layout: KVLayout, options: PlanOptions,
                   choice: Choice | None = None, *, arena: str = MAIN,
                   beside: Mapping[str, fit.Footprint] | None = None) -> Blueprint:
    """Place ``graph`` on devices, cut it into segments and count bytes.

    Allocates nothing, except while ``options.probe`` tries kernels. ``choice``: the placement of an
    earlier blueprint of the graph; None: the best one. ``arena``: see :class:`Blueprint`.
    ``beside``: the blueprints of graphs that are placed already; this graph gets the memory that
    they leave. Raises :class:`InvalidArgument`, :class:`UnsupportedOp`.
    """
    devices, limits = options.open_devices(), asked(limits, graph)
    hold = Hold(devices, options.backend)
    fusions = frozenset.intersection(*(d.fusions for d in devices))
    marked = taps.mark(graph, options.looked, options.changes)
    fused = experts.divide(passes.apply(marked, fusions), devices, options.place)
    maker = Maker(fused, limits, layout, options, devices, arena, beside or {})
    known = choice or maker.choose()
    return replace(maker.blueprint_of(known, told=choice is not None), source=graph, hold=hold)


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes blueprints of a graph whose fusions are done, and finds the best placement. ``arena``
    and ``beside`` as in :func:`make_blueprint`."""

    graph: Graph
    limits: Limits
    layout: KVLayout
    options: PlanOptions
    devices: Sequence[Device]
    arena: str = MAIN
    beside: Mapping[str, fit.Footprint] = field(default_factory=dict)

    def blueprint_of(self, choice: Choice, *, quiet: bool = False, told: bool = False) -> Blueprint:
        """The blueprint with the placement ``choice``. ``quiet``: the blueprint is only compared
        with others, so nothing is reported. ``told``: fallbacks and conversions were reported
        before."""
        wish = self.options.place.expert_cache
        if wish != "auto":
            slots = {d.name: wish for d in self.devices if wish}
            made = self._made(choice, slots, quiet=quiet, told=told)
            if wish and not made.cached and not quiet and not told:
                self._tell_idle_cache(made, wish)
            return made
        plain = self._made(choice, {}, quiet=quiet, told=told)
        return plain if quiet else self._with_cache(plain)

    def _tell_idle_cache(self, made: Blueprint, wish: int) -> None:
        """Warn that no experts are cached, and why; raise :class:`UnsupportedOp` with "strict" if a
        device can't do that."""
        whole = hot_experts.eligible({n: d for n, (d, _) in made.device_of.items()}, made.layers)
        what, hint = "no layer of another device keeps its experts on the CPU", (
            "n_cpu_moe or cpu_moe keeps them there")
        if whole:
            device = made.layers[whole[0].layer].name
            what, hint = f"{device} can't choose and compute them", (
                "unladen doctor lists devices; docs/reference/ops.md says what they run")
            if self.options.strict:
                raise UnsupportedOp(f"expert_cache={wish}: {what}", node=whole[0].name,
                                    device=device, hint=hint)
        log.warning("expert_cache=%d has no effect: %s (hint: %s)", wish, what, hint)

    def _with_cache(self, plain: Blueprint) -> Blueprint:
        """``plain`` with as many experts of each layer on the layer's device as half of the memory
        holds that is left there; the other half is for the cache of tokens and other programs."""
        mixtures = hot_experts.eligible({n: d for n, (d, _) in plain.device_of.items()},
                                        plain.layers)
        one: dict[str, int] = {}
        for node in mixtures:
            name = plain.layers[node.layer].name
            one[name] = one.get(name, 0) + hot_experts.slot_bytes(node)
        known = fit.room(d for d in plain.devices if d.memory_bytes)
        left = self._left(plain, fit.room(plain.devices))
        slots = {name: max(0, left[name]) // fit.POOL_SHARE // one[name] for name in one
                 if name in known}
        while any(slots.values()):
            made = self._made(plain.choice, slots, quiet=False, told=True)
            if min(self._left(made, fit.room(plain.devices)).values()) >= 0:
                return made
            slots = {name: n - -(-n // 8) for name, n in slots.items()}
        return plain

    def _made(self, choice: Choice, slots: Mapping[str, int], *, quiet: bool, told: bool
              ) -> Blueprint:
        """The blueprint with the placement ``choice``, where a device holds ``slots`` experts of
        each layer that keeps its experts on the host."""
        options, limits, layout = self.options, self.limits, self.layout
        graph, shards, sums = self._sharded(choose_on_device.without(self.graph), choice)
        placement = place(graph, self.devices, options.place, choice, shards)
        reference = backend_of("reference").open("reference", options.backend)
        kernels = Kernels({v: name for name, v in graph.inputs.items()}, layout, options.backend,
                          options.strict, options.probe and not quiet)
        cached: Sequence[CachedLayer] = ()
        if slots:
            graph, placement, cached = hot_experts.add(graph, placement, slots, kernels.runs)
        graph, placement = late_sums(graph, placement)
        device_of = assign(graph, placement, [*self.devices, reference], strict=options.strict,
                           quiet=quiet or told, runs=kernels.runs, could_take=kernels.could_take)
        graph, device_of = choose_on_device.add(graph, device_of, kernels.runs)
        used = list({d.name: d for d in [*self.devices,
                                         *(d for d, _ in device_of.values())]}.values())
        if options.backend.deterministic:
            _check_deterministic(used)
        sums = all_reduce.with_libraries(sums, device_of)
        steps = split(graph, device_of, sums)
        needs = needs_of({n: d for n, (d, _) in device_of.items()}, use_mmap=options.use_mmap,
                         strict=options.strict, quiet=quiet or told, format_of=kernels.format_of)
        plain = Blueprint(graph, limits, layout, options, used, choice, device_of, steps,
                          _arenas(graph, steps, used, limits, kernels), needs, self.arena,
                          cached=cached, all_reduces=sums)
        wish = options.place.stream_weights
        # While "auto" looks for a placement, it leaves room for streaming only if the user asks for
        # streaming.
        if wish is False or (quiet and wish == "auto"):
            return plain
        return self._with_streaming(plain, kernels)

    def choose(self) -> Choice:
        """The placement that the options ask for; where they leave it open, the one that is
        predicted to be fastest."""
        graph, devices, wishes = self.graph, self.devices, self.options.place
        wished = choose(graph.n_layers, devices, wishes)
        host, others = host_and_others(devices, wishes)
        is_open = wishes.n_gpu_layers == "auto" or wishes.offload_order == "cost"
        if not is_open or host in others:
            return wished
        unknown = self._unknown()
        if unknown.issuperset(others):
            return choose(graph.n_layers, devices, wishes, 0)
        # Only a choice between devices takes a search, so that a processor alone doesn't wait for
        # the import.
        from unladen.schedule.search import best
        from unladen.schedule.search.units import Sizes
        costs = _costs(self.limits, self.layout)
        room = fit.room([d for d in devices if d not in unknown]) | {d.name: 0 for d in unknown}

        def excess(choice: Choice) -> dict[str, int]:
            left = self._left(self.blueprint_of(choice, quiet=True), room)
            return {name: -n for name, n in left.items()}

        def seconds(choice: Choice) -> float:
            divided, shards, sums = self._sharded(graph, choice)
            placement = place(divided, devices, wishes, choice, shards)
            steps = split(divided, {n: (d, "") for n, d in placement.device_of.items()}, sums)
            return costs[0].predict(divided, steps).seconds

        whole = wishes.tensor_split is None and wishes.split_mode not in shard.MODES
        if wishes.n_gpu_layers == "auto" and whole:
            at_most = fit.room_beside(room, devices, graph.weights().keys(), self.arena,
                                      self.beside)
            layouts = fit.layouts(self.graph.nodes, self.limits, self.layout)
            return best.best(graph, devices, wishes, costs, at_most,
                             Sizes(self.limits, layouts, self.options.use_mmap), excess)
        return best.fastest(best.candidates(graph.n_layers, devices, wishes), seconds, excess)

    def _left(self, made: Blueprint, room: Mapping[str, int]) -> dict[str, int]:
        """The bytes of ``room`` that ``made`` and the graphs beside it leave, on the devices of
        ``made``."""
        memory = fit.count({**self.beside, "": made.footprint()})
        mine = {d.name for d in made.devices}
        return {name: n for name, n in memory.left(room).items() if name in mine}

    def _with_streaming(self, plain: Blueprint, kernels: Kernels) -> Blueprint:
        """``plain``, but its large steps stream weights through the device where that is fastest.
        With "auto" it stays unchanged where streaming isn't faster, or where it has no room."""
        graph, wish = plain.graph, plain.options.place.stream_weights
        _, others = host_and_others(plain.devices, plain.options.place)
        found: list[tuple[float, Blueprint]] = []
        room = fit.room(plain.devices)
        for target in [d for d in others if not d.is_host]:
            if wish == "auto" and not (target.memory_bytes and room[target.name]):
                continue  # even a trial of kernels takes memory
            large = streamed(graph, plain.device_of, plain.layers, target, plain.needs, kernels,
                             plain.all_reduces)
            if large is None:
                continue
            made = replace(plain, streamed=large, streamed_arenas=_arenas(
                graph, large.steps, plain.devices, plain.limits, kernels))
            if wish == "auto":
                left = self._left(made, room)
                n_tokens = _least_tokens(plain, large)
                if n_tokens is None or min(left.values()) < 0:
                    continue
                made = replace(made, streamed=replace(large, n_tokens=n_tokens))
            found.append((made.predict()[1].seconds, made))
        return min(found, key=lambda pair: pair[0])[1] if found else plain

    def _unknown(self) -> set[Device]:
        """The devices that "auto" doesn't use because they don't say how much memory they have;
        none where there is no host to do their work."""
        found = {d for d in self.devices if not d.is_host and not d.memory_bytes}
        if (self.options.place.n_gpu_layers != "auto"
                or not any(d.is_host for d in self.devices)):
            return set()
        for name in sorted(d.name for d in found):
            log.warning("%s doesn't say how much memory it has: it gets no layers by itself (hint: "
                        "say how many with n_gpu_layers)", name)
        return found

    def _sharded(self, graph: Graph, choice: Choice) -> Sharded:
        wishes = self.options.place
        if wishes.split_mode not in shard.MODES:
            return Sharded(graph, {})
        _, others = host_and_others(self.devices, wishes)
        layers = {i for i, d in enumerate(choice.layers) if d in others}
        return shard.apply(graph, wishes, layers, others)


def _check_deterministic(devices: Sequence[Device]) -> None:
    others = [d.name for d in devices if not d.is_deterministic]
    if others:
        raise InvalidArgument(
            f"deterministic=True isn't possible on {', '.join(others)}: sums there depend on the "
            "rest of the step",
            hint='use devices=["cpu"]')


def _least_tokens(plain: Blueprint, large: Streamed) -> int | None:
    """The smallest step, in tokens, that ``large`` is predicted to run faster; None: there is none.
    """
    from unladen.schedule.search.cost import Costs, prefill_step
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
    stored, passed = dict[Value, int](), set[Value]()
    for run, inner in inner_values(graph, steps).items():
        nodes = [kernels.as_placed(run.device, n) for n in run.nodes]
        backend = backend_of(run.device.name)
        stored |= backend.stored_bytes(run.device, nodes, inner, limits, kernels.options)
        passed |= backend.passed_values(run.device, nodes, inner)
    return {d.name: plan_arena(graph, steps, d.name, limits, _scratch(steps, d, limits, kernels),
                               stored, passed)
            for d in devices}


def _costs(limits: Limits, layout: KVLayout) -> tuple[Costs, Costs]:
    from unladen.schedule.search.cost import Costs, decode_step, prefill_step
    return (Costs(decode_step(limits, layout), layout), Costs(prefill_step(limits, layout), layout))


def _scratch(steps: Sequence[Step], device: Device, limits: Limits, kernels: Kernels) -> int:
    nodes = [kernels.as_placed(device, n) for s in steps
             if isinstance(s, RunStep) and s.device == device for n in s.nodes]
    backend = backend_of(device.name)
    return max((backend.scratch_bytes(device, n, limits, kernels.options) for n in nodes),
               default=0)


def _passing(graph: Graph, steps: Sequence[Step], device_of: Mapping[Node, tuple[Device, str]],
             limits: Limits) -> int:
    """Bytes of the largest value without a staging buffer that passes through the host on its way
    to a device or to the caller."""
    passing = [s.value for s in steps if isinstance(s, CopyStep)
               and s.source.is_host and not s.target.is_host]
    passing += [s.value for s in steps if isinstance(s, ChangeStep) and not s.device.is_host]
    passing += [v for n, (d, _) in device_of.items() if not d.is_host for v in n.outputs
                if v in graph.outputs.values()]
    return max((4 * limits.count(v.shape) for v in passing), default=0)
