"""A plan: the graph cut, placed, allocated and compiled once, then run for every step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Backend, Buffer, Device, Placed, PlacedKV, Program, Segment
from unladen.errors import Cancelled, OutOfMemory
from unladen.graph.batch import Batch
from unladen.graph.graph import Node, Value
from unladen.runtime.carry import Kept, rotations, take_over, take_over_slots
from unladen.runtime.loading import PIECE_BYTES
from unladen.runtime.weights import TensorData, load
from unladen.schedule import fit
from unladen.schedule.blueprint import Arenas, Blueprint
from unladen.schedule.cut import choose_on_device
from unladen.schedule.cut.arena import ArenaPlan
from unladen.schedule.cut.choose_on_device import NARROWING
from unladen.schedule.cut.segments import ChangeStep, CopyStep, FetchStep, RunStep, Step
from unladen.schedule.cut.through_device import N_SLOTS, SlotKey, slot_keys
from unladen.schedule.options import Change
from unladen.types import Shape

Array = npt.NDArray[Any]

SMALL_STEPS = 8
"""So many small steps in a row show that prompts are over for now."""

MUCH_LARGER = 8
"""A step is small where a plan's largest one has at least so many times its tokens."""


class Plan:
    """Compiled segments and the memory they work on.

    A step: fill :attr:`batch`, call :meth:`run`, read :meth:`output`. One thread at a time.
    ``kept`` is what a plan before it left: weights and caches where they fit.
    :attr:`continues_cache`: all of that plan's cache is in this one's, block numbers unchanged.
    :attr:`n_best`: for each of ``NARROWING`` that the device of the logits has, how many candidates
    it leaves. :attr:`runs_ahead`: a step may continue one whose tokens nobody has seen; not with
    recurrent state, of which a sequence has no more than two slots, nor where values are tapped.
    :attr:`survives_fork`: a forked child can go on with it.
    Raises :class:`OutOfMemory`.
    """

    def __init__(self, blueprint: Blueprint, data: TensorData, kept: Kept | None = None
                 ) -> None:
        kept = Kept() if kept is None else kept
        self.blueprint = blueprint
        self.batch = Batch.empty(blueprint.limits)
        self._placed = load(blueprint.needs, data, kept.weights, blueprint.options.loading,
                            strict=blueprint.options.strict)
        self._owned = [self._placed[n.device.name, n.weight.name].buffer for n in blueprint.needs
                       if not n.mapped]
        sizes = blueprint.arena_bytes()
        self._arenas = {d.name: backend_of(d.name).alloc(d, sizes[d.name], "arena")
                        for d in blueprint.devices if sizes[d.name]}
        self._kv, self.continues_cache = take_over(blueprint.caches(), blueprint.layout, kept)
        self._slots, same = take_over_slots(blueprint.slots(), kept)
        self.continues_cache = self.continues_cache and same
        self._programs: list[tuple[str, Program]] = []
        self._ring: dict[tuple[int, SlotKey], Buffer] = {}
        self._ways = [self._way(blueprint.steps, blueprint.arenas, blueprint.device_of)]
        if blueprint.streamed is not None:
            self._ring = {
                (i, key): backend_of(n.device.name).alloc(n.device, n.nbytes, "weights",
                                                          n.row_bytes)
                for key, n in blueprint.streamed.slot.items() for i in range(N_SLOTS)}
            self._ways.append(self._way(blueprint.streamed.steps, blueprint.streamed_arenas,
                                        blueprint.streamed.device_of))
        self._last = self._ways[0]
        self._cancelled = False
        self._n_small = 0
        self.n_best = {n.op: choose_on_device.n_candidates(n) for n in blueprint.graph.nodes
                       if n.op in NARROWING}
        # A backend from elsewhere may not say.
        self.survives_fork = all(getattr(backend_of(d), "survives_fork", False)
                                 for d, _ in self._programs)
        self.runs_ahead = (
            "argmax" in self.n_best and not blueprint.options.is_tapped and not self._slots
            and len(blueprint.steps) == len(self._ways) == 1
            and all(backend_of(d).runs_ahead for d, _ in self._programs))

    def __repr__(self) -> str:
        return repr(self.blueprint).replace("Blueprint", "Plan", 1)

    def _repr_svg_(self) -> str:
        """A notebook shows this: the picture of a :class:`PlanReport`, as if nothing had been
        allocated yet."""
        from unladen.schedule.show.report import PlanReport  # few want one
        taken = {m.device.name: m.taken_bytes or 0 for m in self.memory().devices}
        return PlanReport.of(self.blueprint, "plan", self.blueprint.limits.n_keys, taken).svg()

    def run(self) -> None:
        """Compute the step in :attr:`batch`; devices may still be at it when it returns, and
        :meth:`output` waits for them.

        Raises :class:`Cancelled` after :meth:`cancel`. The caches may then hold some of the step's
        rows, which the next step that computes those positions overwrites.
        """
        self._cancelled = False
        self._give_back()
        large = self.blueprint.streamed
        is_large = large is not None and self.batch.n_tokens >= large.n_tokens
        self._last = self._ways[-1 if is_large else 0]
        for action in self._last.actions:
            if self._cancelled:
                raise Cancelled("the step was cancelled")
            action()

    def _give_back(self) -> None:
        """Once prompts are over, give what their steps took of the arenas back to the system."""
        if self.runs_ahead:  # the arena has the tokens that the next step may begin with
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
            backend_of(device).cancel(program)

    def settle(self) -> None:
        """Do at once what steps do on the side, so that later ones take as long as ever after."""
        for device, program in self._programs:
            backend_of(device).settle(program)

    def output(self, name: str) -> Array:
        """An output of the graph for the last step, for example "logits" f32 [S, n_vocab].

        On the host a view that the next step overwrites.
        """
        return self._last.outputs[name].read()

    def fetch(self, name: str) -> Callable[[], Array]:
        """Begin to read an output; what is returned waits for it, and gives a copy, whatever was
        run since."""
        return self._last.outputs[name].fetch()

    def copy_block(self, target: int, source: int) -> None:
        """Copy one cache block, in all layers, onto another."""
        layout = self.blueprint.layout
        for kv in self._kv.values():
            for buffer in (kv.k, kv.v):
                n = buffer.nbytes // layout.n_blocks
                backend = backend_of(buffer.device.name)
                if not backend.copy(buffer, target * n, buffer, source * n, n):
                    backend.write(buffer, backend.read(buffer, n, source * n), target * n)

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

    def memory(self) -> fit.MemoryPlan:
        """Bytes by device, as planned and as taken."""
        taken: dict[str, int] = {}
        kv = [b for placed in self._kv.values() for b in (placed.k, placed.v)]
        for buffer in (*self._owned, *self._arenas.values(), *self._ring.values(), *kv,
                       *self._slots.values()):
            name = buffer.device.name
            taken[name] = taken.get(name, 0) + buffer.nbytes
        return fit.MemoryPlan([replace(m, taken_bytes=taken.get(m.device.name, 0))
                               for m in self.blueprint.memory.devices])

    def keep(self) -> Kept:
        """What a plan after this one may take over, while this one goes on."""
        return Kept(dict(self._placed), dict(self._kv), dict(self._slots),
                    rotations(self.blueprint.graph))

    def rest(self) -> None:
        """Give what steps took of the arenas back to the system: another plan goes on."""
        for arena in self._arenas.values():
            backend_of(arena.device.name).discard(arena, densely_used=True)

    def surrender(self, error: OutOfMemory) -> Kept:
        """Free everything but what a plan after this one may take over. Every :meth:`run` from now
        on raises ``error``, and :meth:`output` makes no sense."""
        kept = self.keep()
        self._last = _Way([functools.partial(_fail, error.again())], {})
        self._ways = [self._last]
        for held in (self._programs, self._arenas, self._placed, self._owned, self._kv,
                     self._slots, self._ring):
            held.clear()
        return kept

    def _way(self, steps: Sequence[Step], arenas: Arenas,
             device_of: Mapping[Node, tuple[Device, str]]) -> _Way:
        slots = {s.run: s for s in steps if isinstance(s, FetchStep)}
        home = {v: d for n, (d, _) in device_of.items() for v in n.outputs}

        def where(device: Device, value: Value) -> _Where:
            return self._arenas[device.name], arenas[device.name].offsets[value]

        actions: list[Callable[[], None]] = []
        for step in steps:
            if isinstance(step, CopyStep):
                actions.append(functools.partial(_copy, step, self.batch,
                                                 where(step.source, step.value),
                                                 where(step.target, step.value)))
            elif isinstance(step, ChangeStep):
                actions.append(functools.partial(
                    _change, self.blueprint.options.changes[step.value.name], step.value,
                    self._output(step.value, step.device, arenas)))
            elif isinstance(step, FetchStep):
                sources = [self._placed[d.name, n.weight.name]
                           for d, n in zip(step.hosts, step.needs, strict=True)]
                actions.append(functools.partial(_fetch, list(zip(
                    self._slot(step).values(), sources, strict=True))))
            else:
                actions.append(self._compiled(step, arenas[step.device.name], slots.get(step)))
        return _Way(actions, {name: self._output(v, home[v], arenas)
                              for name, v in self.blueprint.graph.outputs.items()})

    def _output(self, value: Value, device: Device, arenas: Arenas) -> _Output:
        return _Output(value.shape, value.numpy, self.batch, backend_of(device.name),
                       self._arenas[device.name], arenas[device.name].offsets[value])

    def _slot(self, step: FetchStep) -> dict[str, Buffer]:
        """By weight, where a fetch puts it."""
        return {n.weight.name: self._ring[step.slot, key]
                for n, key in zip(step.needs, slot_keys(step.needs), strict=True)}

    def _compiled(self, step: RunStep, arena: ArenaPlan, fetch: FetchStep | None
                  ) -> Callable[[], None]:
        name, blueprint = step.device.name, self.blueprint
        by_weight: dict[str, Placed] = {w: p for (d, w), p in self._placed.items() if d == name}
        if fetch is not None:
            slot = self._slot(fetch)
            by_weight |= {n.weight.name: Placed(n.weight, slot[n.weight.name], 0, n.quant)
                          for n in fetch.needs}
        batch_inputs = {value: key for key, value in blueprint.graph.inputs.items()}
        backend = backend_of(name)
        program = backend.compile(Segment(
            step.device, step.nodes, self._arenas[name], arena.offsets, batch_inputs,
            (arena.scratch_offset, arena.scratch_bytes), by_weight, self._kv, self._slots,
            blueprint.limits, self.batch, blueprint.options.backend, arena.stored,
            is_brief=blueprint.options.is_tapped))
        self._programs.append((name, program))
        return functools.partial(backend.run, program)


# These are no methods: a plan that its own actions refer to would keep its memory after the last
# user has gone.
_Where = tuple[Buffer, int]


@dataclass(frozen=True, slots=True)
class _Output:
    """Where an output of the graph is read, or a value that may be changed."""

    shape: Shape
    dtype: np.dtype[Any]
    batch: Batch
    backend: Backend
    buffer: Buffer
    offset: int

    def read(self) -> Array:
        self.backend.sync(self.buffer.device)
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


@dataclass(frozen=True, slots=True)
class _Way:
    """What a step does, and what of it is read afterwards."""

    actions: Sequence[Callable[[], None]]
    outputs: Mapping[str, _Output]


def _fail(error: OutOfMemory) -> None:
    raise error.again()


def _copy(step: CopyStep, batch: Batch, source_at: _Where, target_at: _Where) -> None:
    source, target = (backend_of(d.name) for d in (step.source, step.target))
    nbytes = 4 * math.prod(_shape(step.value.shape, batch))
    source.sync(step.source)
    if source is target and source.copy(*target_at, *source_at, nbytes):
        return
    target.write(target_at[0], source.read(source_at[0], nbytes, source_at[1]), target_at[1])


def _change(change: Change, value: Value, at: _Output) -> None:
    array = at.read()
    array.flags.writeable = False
    changed = change(value, array, at.batch)
    if changed is not None:
        at.write(changed)


def _fetch(moves: Sequence[tuple[Buffer, Placed]]) -> None:
    for target, placed in moves:
        source, backend = backend_of(placed.buffer.device.name), backend_of(target.device.name)
        n = placed.weight.nbytes_in(placed.quant)
        data = source.read(placed.buffer, n, placed.offset)
        for start in range(0, n, PIECE_BYTES):
            backend.write(target, data[start:start + PIECE_BYTES], start)


def _shape(shape: Shape, batch: Batch) -> tuple[int, ...]:
    return tuple([batch.size(s) if isinstance(s, str) else s for s in shape])
