"""A plan: the graph cut, placed, allocated and compiled once, then run for every step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Buffer, Device, Placed, Program, Segment
from unladen.errors import Cancelled, OutOfMemory
from unladen.graph.batch import Batch
from unladen.graph.graph import Value
from unladen.schedule import fit, weights
from unladen.schedule.carry import Kept, take_over, take_over_slots
from unladen.schedule.draft import Draft, PlanOptions, draft
from unladen.schedule.split import CopyStep, RunStep, Step

__all__ = ["Draft", "Plan", "PlanOptions", "draft"]


class Plan:
    """Compiled segments and the memory they work on.

    A step: fill :attr:`batch`, call :meth:`run`, read :meth:`output`. One thread at a time.
    ``kept`` is what a plan before it left: weights and caches where they fit.
    :attr:`continues_cache`: all of that plan's cache is in this one's, block numbers unchanged.
    Raises :class:`OutOfMemory`.
    """

    def __init__(self, drafted: Draft, data: weights.TensorData, kept: Kept | None = None) -> None:
        kept = Kept() if kept is None else kept
        self.draft = drafted
        self.batch = Batch.empty(drafted.limits)
        self._placed = weights.load(drafted.needs, data, kept.weights)
        self._owned = [self._placed[n.device.name, n.weight.name].buffer for n in drafted.needs
                       if not n.mapped]
        self._arenas = {d.name: backend_of(d.name).alloc(d, drafted.arenas[d.name].nbytes, "arena")
                        for d in drafted.devices if drafted.arenas[d.name].nbytes}
        self._kv, self.continues_cache = take_over(drafted.caches(), drafted.layout, kept)
        self._slots, same = take_over_slots(drafted.slots(), kept)
        self.continues_cache = self.continues_cache and same
        self._programs: list[tuple[str, Program]] = []
        self._actions = [self._action(step) for step in drafted.steps]
        self._cancelled = False
        self._outputs = {name: self._reader(v) for name, v in drafted.graph.outputs.items()}

    def run(self) -> None:
        """Compute the step in :attr:`batch`; done when it returns.

        Raises :class:`Cancelled` after :meth:`cancel`. The caches may then hold some of the step's
        rows, which the next step that computes those positions overwrites.
        """
        self._cancelled = False
        for action in self._actions:
            if self._cancelled:
                raise Cancelled("the step was cancelled")
            action()

    def cancel(self) -> None:
        """Make a :meth:`run` in another thread raise :class:`Cancelled` soon."""
        self._cancelled = True
        for device, program in self._programs:
            backend_of(device).cancel(program)

    def output(self, name: str) -> npt.NDArray[np.float32]:
        """An output of the graph for the last step, for example "logits" f32 [S, n_vocab].

        On the host a view that the next step overwrites.
        """
        return self._outputs[name]()

    def copy_block(self, target: int, source: int) -> None:
        """Copy one cache block, in all layers, onto another."""
        layout = self.draft.layout
        for kv in self._kv.values():
            for buffer in (kv.k, kv.v):
                n = buffer.nbytes // layout.n_blocks
                backend = backend_of(buffer.device.name)
                if not backend.copy(buffer, target * n, buffer, source * n, n):
                    backend.write(buffer, backend.read(buffer, n, source * n), target * n)

    def explain(self) -> str:
        """Each node, its device, and why it is there."""
        return self.draft.explain()

    def memory(self) -> fit.MemoryPlan:
        """Bytes by device, as planned and as taken."""
        taken: dict[str, int] = {}
        kv = [b for placed in self._kv.values() for b in (placed.k, placed.v)]
        for buffer in (*self._owned, *self._arenas.values(), *kv, *self._slots.values()):
            name = buffer.device.name
            taken[name] = taken.get(name, 0) + buffer.nbytes
        return fit.MemoryPlan([replace(m, taken_bytes=taken.get(m.device.name, 0))
                               for m in self.draft.memory.devices])

    def keep(self) -> Kept:
        """What a plan after this one may take over, while this one goes on."""
        return Kept(dict(self._placed), dict(self._kv), dict(self._slots))

    def surrender(self, error: OutOfMemory) -> Kept:
        """Free everything but what a plan after this one may take over. Every :meth:`run` from now
        on raises ``error``, and :meth:`output` makes no sense."""
        kept = self.keep()
        self._actions = [functools.partial(_fail, error.again())]
        for held in (self._programs, self._arenas, self._placed, self._owned, self._kv,
                     self._slots, self._outputs):
            held.clear()
        return kept

    def _action(self, step: Step) -> Callable[[], None]:
        if isinstance(step, CopyStep):
            return functools.partial(_copy, step, self.batch,
                                     self._where(step.source.name, step.value),
                                     self._where(step.target.name, step.value))
        backend = backend_of(step.device.name)
        program = backend.compile(self._segment(step))
        self._programs.append((step.device.name, program))
        return functools.partial(backend.run, program)

    def _segment(self, step: RunStep) -> Segment:
        name, drafted = step.device.name, self.draft
        arena = drafted.arenas[name]
        by_weight: dict[str, Placed] = {w: p for (d, w), p in self._placed.items() if d == name}
        batch_inputs = {value: key for key, value in drafted.graph.inputs.items()}
        return Segment(step.device, step.nodes, self._arenas[name], arena.offsets, batch_inputs,
                       (arena.scratch_offset, arena.scratch_bytes), by_weight, self._kv,
                       self._slots, drafted.limits, self.batch, drafted.options.backend)

    def _where(self, device: str, value: Value) -> _Where:
        return self._arenas[device], self.draft.arenas[device].offsets[value]

    def _reader(self, value: Value) -> Callable[[], npt.NDArray[np.float32]]:
        (node,) = (n for n in self.draft.graph.nodes if value in n.outputs)
        device = self.draft.device_of[node][0]
        return functools.partial(_read, value, device, self.batch, self._where(device.name, value))


# These are no methods: a plan that its own actions refer to would keep its memory after the last
# user has gone.
_Where = tuple[Buffer, int]


def _fail(error: OutOfMemory) -> None:
    raise error.again()


def _copy(step: CopyStep, batch: Batch, source_at: _Where, target_at: _Where) -> None:
    source, target = (backend_of(d.name) for d in (step.source, step.target))
    nbytes = 4 * math.prod(_shape(step.value, batch))
    source.sync(step.source)
    if source is target and source.copy(*target_at, *source_at, nbytes):
        return
    target.write(target_at[0], source.read(source_at[0], nbytes, source_at[1]), target_at[1])


def _read(value: Value, device: Device, batch: Batch, where: _Where) -> npt.NDArray[np.float32]:
    backend, shape = backend_of(device.name), _shape(value, batch)
    backend.sync(device)
    raw = backend.read(where[0], 4 * math.prod(shape), where[1])
    return raw.view(np.float32).reshape(shape)


def _shape(value: Value, batch: Batch) -> tuple[int, ...]:
    return tuple(batch.size(s) if isinstance(s, str) else s for s in value.shape)
