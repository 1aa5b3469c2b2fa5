"""A plan: a placed and cut graph, which is compiled once and run in every step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.backends import Hold, backend_of
from unladen.backends.base import (
    Backend,
    Buffer,
    Collective,
    Device,
    Place,
    Placed,
    PlacedKV,
    Program,
    Segment,
)
from unladen.errors import Cancelled, UnladenError
from unladen.graph.batch import Batch
from unladen.graph.graph import Node, Value
from unladen.runtime import blocks
from unladen.runtime.arrivals import Arrivals
from unladen.runtime.carry import KeptState, rotations, take_over, take_over_slots
from unladen.runtime.crossing import Crossing
from unladen.runtime.expert_cache import ExpertCache, LayerCache
from unladen.schedule.blueprint import Arenas, Blueprint
from unladen.schedule.cut import choose_on_device
from unladen.schedule.cut.arena import ArenaPlan
from unladen.schedule.cut.choose_on_device import NARROWING
from unladen.schedule.cut.crossings import Crossings
from unladen.schedule.cut.segments import (
    ChangeStep,
    CopyStep,
    FetchStep,
    NoteStep,
    ReduceStep,
    RunStep,
    Step,
)
from unladen.schedule.cut.through_device import N_SLOTS, SlotKey, slot_keys
from unladen.schedule.needs import NeedKey
from unladen.schedule.options import Change
from unladen.types import Shape

Array = npt.NDArray[Any]

SMALL_STEPS = 8
"""After this many small steps in a row, prompts are taken to be over for now."""

MUCH_LARGER = 8
"""A step is small if the plan's largest step has at least this many times as many tokens."""


class Plan:
    """A graph in memory: its compiled segments, and the buffers that they work on.

    A step: fill :attr:`batch`, call :meth:`run`, read :meth:`output`. One thread at a time.
    :class:`~unladen.runtime.plan_set.PlanSet` makes the plans of a model's graphs.

    ``weights``: those of the whole set. ``arenas``: by device name; ``shares_arenas``: other graphs
    use them too. ``staging``: by device name and number, the buffers for values that go through the
    host. ``kept``: caches and recurrent state that an earlier plan left; ``experts``: its caches of
    experts, by the names of their nodes. ``hold``: keeps the devices open. ``is_brief``: the plan
    is used for a short time, so no weights are moved for it. Raises :class:`OutOfMemory`.

    :attr:`experts`: the caches of experts. :attr:`continues_cache`: the whole cache that was
    ``kept`` is in this plan's cache, with the same block numbers. :attr:`n_best`: for each op of
    ``NARROWING`` that the device of the logits has, how many candidates it leaves.
    :attr:`runs_ahead`: a step may begin before the tokens of the last one are read. Not with
    recurrent state, of which a sequence has at most two slots, nor where values are tapped, nor
    where another graph's step overwrites the arena. :attr:`survives_fork`: a forked child can go on
    with it.
    """

    def __init__(self, blueprint: Blueprint, weights: Mapping[NeedKey, Placed],
                 arenas: Mapping[str, Buffer], staging: Mapping[tuple[str, int], Buffer],
                 kept: KeptState, hold: Hold, *, experts: Mapping[str, LayerCache] | None = None,
                 shares_arenas: bool = False, is_brief: bool = False) -> None:
        self.blueprint = blueprint
        self.batch = Batch.empty(blueprint.limits)
        self._is_brief = is_brief
        self._hold = hold
        self._placed = {(n.device.name, n.weight.name): weights[n.key] for n in blueprint.needs}
        self.experts = ExpertCache.of(blueprint.cached, self._placed, experts or {})
        self._arenas, self._staging = dict(arenas), dict(staging)
        self._kv, self.continues_cache = take_over(blueprint.caches(), blueprint.layouts, kept,
                                                   blueprint.limits.n_blocks_per_seq)
        self._slots, same = take_over_slots(blueprint.slots(), kept)
        self.continues_cache = self.continues_cache and same
        self._programs: list[tuple[Device, Program]] = []
        self._ring: dict[tuple[int, SlotKey], Buffer] = {}
        self._arrivals: list[Arrivals] = []
        crossings = blueprint.crossings()
        self._ways = [self._way(blueprint.steps, blueprint.arenas, blueprint.device_of,
                                crossings[0])]
        if blueprint.streamed is not None:
            self._ring = {
                (i, key): backend_of(n.device.name).alloc(n.device, n.nbytes, "weights",
                                                          n.row_bytes)
                for key, n in blueprint.streamed.slot.items() for i in range(N_SLOTS)}
            self._ways.append(self._way(blueprint.streamed.steps, blueprint.streamed_arenas,
                                        blueprint.streamed.device_of, crossings[1]))
        self._last = self._ways[0]
        self._cancelled = False
        self._ended: Callable[[], UnladenError] | None = None
        self._n_small = 0
        self.n_best = {n.op: choose_on_device.n_candidates(n) for n in blueprint.graph.nodes
                       if n.op in NARROWING}
        self.survives_fork = all(d.survives_fork for d, _ in self._programs)
        self.runs_ahead = (
            "argmax" in self.n_best and not blueprint.options.is_tapped and not self._slots
            and not shares_arenas and len(blueprint.steps) == len(self._ways) == 1
            and all(d.runs_ahead for d, _ in self._programs))

    def __repr__(self) -> str:
        return repr(self.blueprint).replace("Blueprint", "Plan", 1)

    def run(self) -> None:
        """Compute the step in :attr:`batch`. Devices may still be at work when it returns;
        :meth:`output` waits for them. The batch may be filled again at once.

        Raises :class:`Cancelled` after :meth:`cancel`. The caches may then hold some of the step's
        rows, which the next step that computes those positions overwrites.
        """
        self._check_alive()
        self._cancelled = False
        self._give_back()
        large = self.blueprint.streamed
        is_large = large is not None and self.batch.n_tokens >= large.n_tokens
        self._last = self._ways[-1 if is_large else 0]
        self.experts.before_step()
        is_done = False
        try:
            for action in self._last.actions:
                if self._cancelled:
                    raise Cancelled("the step was cancelled")
                action()
            is_done = True
        finally:
            if not is_done:
                for arrivals in self._arrivals:
                    arrivals.forget()

    def _give_back(self) -> None:
        """Once prompts are over, return to the system the parts of the arenas that only their steps
        use."""
        if self.runs_ahead:  # the next step may read tokens from the arena
            return
        is_small = self.batch.n_tokens * MUCH_LARGER <= self.blueprint.limits.n_tokens
        was_over = self._n_small >= SMALL_STEPS
        self._n_small = self._n_small + 1 if is_small else 0
        if (self._n_small >= SMALL_STEPS) != was_over:
            for arena in self._arenas.values():
                backend_of(arena.device.name).discard(arena, densely_used=was_over)

    def cancel(self) -> None:
        """Make a :meth:`run` in another thread raise :class:`Cancelled` soon."""
        self._cancelled = True
        for device, program in self._programs:
            backend_of(device.name).cancel(program)

    def settle(self) -> None:
        """Do all background work now that steps would do little by little, so that later steps take
        equally long."""
        for device, program in self._programs:
            backend_of(device.name).settle(program)

    def output(self, name: str) -> Array:
        """An output of the graph for the last step, for example "logits" f32 [S, n_vocab].

        On the host it is a view. The next step overwrites it, and so does the next step of a graph
        that shares the arena.
        """
        self._check_alive()
        return self._last.outputs[name].read()

    def fetch(self, name: str) -> Callable[[], Array]:
        """Begin to read an output. Returns a function that waits for it and returns a copy, even if
        other steps ran in the meantime."""
        self._check_alive()
        return self._last.outputs[name].fetch()

    def copy_block(self, target: int, source: int, /, group: int = 0) -> None:
        """Copy one cache block, in all layers of ``group``, onto another: 0 those that see whole
        sequences, 1 those of the first window."""
        for kv in self.kv_of(group).values():
            for buffer in (kv.k, kv.v):
                n = buffer.nbytes // kv.layout.n_blocks
                backend = backend_of(buffer.device.name)
                if not backend.copy(buffer, target * n, buffer, source * n, n):
                    backend.write(buffer, backend.read(buffer, n, source * n), target * n)

    def read_block(self, block: int, group: int = 0) -> npt.NDArray[np.uint8]:
        """A copy of one cache block, in all layers of ``group``: uint8, in the order of bytes that
        :mod:`unladen.runtime.blocks` describes. Waits for the steps that were run before."""
        self._check_alive()
        return blocks.read_block(self.kv_of(group), block)

    def write_block(self, block: int, data: npt.NDArray[np.uint8], group: int = 0) -> None:
        """Put ``data``, what :meth:`read_block` gave, into one cache block. Raises
        :class:`InvalidArgument` for another number of bytes, before anything is written."""
        self._check_alive()
        blocks.write_block(self.kv_of(group), block, data)

    def kv_of(self, group: int) -> Mapping[int, PlacedKV]:
        """The caches of the layers in ``group``."""
        windows = self.blueprint.limits.windows
        if not windows:
            return self._kv
        window = windows[group - 1][0] if group else 0
        return {layer: kv for layer, kv in self._kv.items() if kv.layout.window == window}

    @property
    def kv(self) -> Mapping[int, PlacedKV]:
        """The cache of every layer that has one."""
        return self._kv

    @property
    def slots(self) -> Mapping[str, Buffer]:
        """The recurrent state of every node that has some."""
        return self._slots

    def explain(self) -> str:
        """Each node, its device, and why it is there."""
        return self.blueprint.explain()

    def taken_bytes(self) -> dict[str, int]:
        """Bytes by device that the plan has allocated: caches, recurrent state and rings."""
        taken: dict[str, int] = {}
        kv = [b for placed in self._kv.values() for b in (placed.k, placed.v)]
        for buffer in (*self._ring.values(), *kv, *self._slots.values()):
            name = buffer.device.name
            taken[name] = taken.get(name, 0) + buffer.nbytes
        return taken

    def keep(self) -> KeptState:
        """What a plan after this one may take over, while this one goes on."""
        return KeptState(dict(self._kv), dict(self._slots), rotations(self.blueprint.graph))

    def end(self, error: Callable[[], UnladenError]) -> None:
        """Free the plan's memory. From now on a step, or reading an output, raises the exception
        that ``error`` returns."""
        self._ended = error
        self._last = _Way([], {})
        self._ways = [self._last]
        self.experts = ExpertCache({})
        for held in (self._programs, self._arenas, self._staging, self._placed, self._kv,
                     self._slots, self._ring):
            held.clear()

    def _check_alive(self) -> None:
        if self._ended is not None:
            raise self._ended()

    def _way(self, steps: Sequence[Step], arenas: Arenas,
             device_of: Mapping[Node, tuple[Device, str]], crossings: Crossings) -> _Way:
        slots = {s.run: s for s in steps if isinstance(s, FetchStep)}
        arrivals = {key: Arrivals(backend_of(s.run.device.name), s.run.device)
                    for s in slots.values() for key in [(s.run.device.name, s.slot)]}
        self._arrivals += arrivals.values()
        home = {v: d for n, (d, _) in device_of.items() for v in n.outputs}

        def where(device: Device, value: Value) -> tuple[Buffer, int]:
            return self._arenas[device.name], arenas[device.name].offsets[value]

        actions: list[Callable[[], None]] = []
        under_way: dict[CopyStep, Crossing] = {}
        for i, step in enumerate(steps):
            actions += [under_way[copy].arrive for copy in crossings.due.get(i, ())]
            if isinstance(step, CopyStep):
                staging = (self._staging[step.source.name, crossings.slot[step]]
                           if step in crossings.slot else None)
                crossing = under_way[step] = Crossing(
                    self.batch, step.value.shape, *where(step.source, step.value),
                    *where(step.target, step.value), staging)
                actions.append(crossing.send)
            elif isinstance(step, ReduceStep):
                group = backend_of(step.devices[0].name).collective(step.devices)
                actions.append(functools.partial(
                    _reduce, group, list(map(where, step.devices, step.parts)),
                    list(map(where, step.devices, step.totals)), step.parts[0].shape, self.batch))
            elif isinstance(step, ChangeStep):
                actions.append(functools.partial(
                    _change, self.blueprint.options.changes[step.value.name], step.value,
                    self._output(step.value, step.device, arenas)))
            elif isinstance(step, NoteStep):
                actions.append(functools.partial(
                    _note, self.experts.layers[step.node.name],
                    self._output(step.value, step.device, arenas)))
            elif isinstance(step, FetchStep):
                sources = [self._placed[d.name, n.weight.name]
                           for d, n in zip(step.hosts, step.needs, strict=True)]
                actions.append(functools.partial(
                    arrivals[step.run.device.name, step.slot].send,
                    list(zip(self._slot(step).values(), sources, strict=True))))
            else:
                fetch = slots.get(step)
                run = self._compiled(step, arenas[step.device.name], fetch)
                if fetch is None:
                    actions.append(run)
                else:
                    slot = arrivals[step.device.name, fetch.slot]
                    actions += [slot.arrive, run, slot.release]
        return _Way(actions, {name: self._output(v, home[v], arenas)
                              for name, v in self.blueprint.graph.outputs.items()})

    def _output(self, value: Value, device: Device, arenas: Arenas) -> _Output:
        return _Output(value.shape, value.numpy, self.batch, backend_of(device.name),
                       self._arenas[device.name], arenas[device.name].offsets[value])

    def _slot(self, step: FetchStep) -> dict[str, Buffer]:
        """The buffer that a fetch fills, by the weight's name."""
        return {n.weight.name: self._ring[step.slot, key]
                for n, key in zip(step.needs, slot_keys(step.needs), strict=True)}

    def _compiled(self, step: RunStep, arena: ArenaPlan, fetch: FetchStep | None
                  ) -> Callable[[], None]:
        name, blueprint = step.device.name, self.blueprint
        weights = [w.name for n in step.nodes for w in n.weights.values()]
        by_weight = {w: self._placed[name, w] for w in weights if (name, w) in self._placed}
        kv = {n.state.layer: self._kv[n.state.layer] for n in step.nodes if n.state is not None}
        slots = {n.name: self._slots[n.name] for n in step.nodes if n.name in self._slots}
        if fetch is not None:
            slot = self._slot(fetch)
            by_weight |= {n.weight.name: Placed(n.weight, slot[n.weight.name], 0, n.quant)
                          for n in fetch.needs}
        batch_inputs = {value: key for key, value in blueprint.graph.inputs.items()}
        backend = backend_of(name)
        program = backend.compile(Segment(
            step.device, step.nodes, self._arenas[name], arena.offsets, batch_inputs,
            (arena.scratch_offset, arena.scratch_bytes), by_weight, kv, slots,
            blueprint.limits, self.batch, blueprint.options.backend, arena.stored,
            arena.passed, is_brief=self._is_brief))
        self._programs.append((step.device, program))
        return functools.partial(backend.run, program)


# The actions below are functions, not methods of the plan: if they referred to the plan, its memory
# would stay after its last user has dropped it.
class _Output(NamedTuple):
    """The place where an output of the graph, or a value that may be changed, is read."""

    shape: Shape
    dtype: np.dtype[Any]
    batch: Batch
    backend: Backend
    buffer: Buffer
    offset: int

    def read(self) -> Array:
        shape = _shape(self.shape, self.batch)
        raw = self.backend.read(self.buffer, 4 * math.prod(shape), self.offset)
        return raw.view(self.dtype).reshape(shape)

    def fetch(self) -> Callable[[], Array]:
        shape = _shape(self.shape, self.batch)
        wait = self.backend.fetch(self.buffer, 4 * math.prod(shape), self.offset)
        return lambda: wait().view(self.dtype).reshape(shape)

    def write(self, array: Array) -> None:
        raw = np.ascontiguousarray(array, self.dtype).view(np.uint8).reshape(-1)
        self.backend.write(self.buffer, raw, self.offset)


class _Way(NamedTuple):
    """One way of running a step: its actions, and the outputs that are read afterwards."""

    actions: Sequence[Callable[[], None]]
    outputs: Mapping[str, _Output]


def _reduce(group: Collective, parts: Sequence[Place], totals: Sequence[Place], shape: Shape,
            batch: Batch) -> None:
    if count := math.prod(_shape(shape, batch)):
        group.all_reduce(parts, totals, count)


def _note(layer: LayerCache, at: _Output) -> None:
    layer.note(at.read())


def _change(change: Change, value: Value, at: _Output) -> None:
    array = at.read()
    array.flags.writeable = False
    changed = change(value, array, at.batch)
    if changed is not None:
        at.write(changed)


def _shape(shape: Shape, batch: Batch) -> tuple[int, ...]:
    return tuple([batch.size(s) if isinstance(s, str) else s for s in shape])
