"""The plans of all graphs of a model: in memory together, each weight once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from unladen.backends import Hold, backend_of
from unladen.backends.base import Buffer
from unladen.errors import Cancelled, OutOfMemory, UnladenError
from unladen.runtime.carry import Kept
from unladen.runtime.expert_cache import ExpertCounts
from unladen.runtime.plan import Plan
from unladen.runtime.weights import TensorData, load
from unladen.schedule.blueprint_set import BlueprintSet
from unladen.schedule.fit import MemoryPlan
from unladen.types import MAIN


class PlanSet:
    """A blueprint set in memory: allocated and compiled. It keeps its devices open until
    :meth:`close`, or until its last reference is dropped.

    ``data``: the bytes of tensors. ``kept``: what an earlier plan set left; its weights and caches
    are taken over where they fit. Raises :class:`OutOfMemory`, and what ``data`` raises.
    """

    def __init__(self, blueprint: BlueprintSet, data: TensorData, kept: Kept | None = None) -> None:
        kept = Kept() if kept is None else kept
        options = blueprint.main.options
        self.blueprint = blueprint
        self._is_ended = False
        self._hold = Hold(blueprint.devices, options.backend)
        for member in blueprint.members.values():
            member.let_go()
        tables = {key: table.view(np.uint8) for b in blueprint.members.values()
                  for each in b.cached for key, table in each.first_tables().items()}
        self._placed = load(blueprint.needs,
                            lambda key: tables[key] if key in tables else data(key), kept.weights,
                            options.loading, strict=options.strict)
        self._owned = [self._placed[n.key].buffer for n in blueprint.needs if not n.mapped]
        devices = {d.name: d for d in blueprint.devices}
        self._arenas: dict[tuple[str, str], Buffer] = {
            key: backend_of(key[1]).alloc(devices[key[1]], n, "arena")
            for key, n in blueprint.arena_bytes().items()}
        self._staging: dict[tuple[str, str, int], Buffer] = {
            key: backend_of(key[1]).alloc(devices[key[1]], n, "staging")
            for key, n in blueprint.staging_bytes().items()}
        users = [b.arena for b in blueprint.members.values()]
        self._members = {
            name: Plan(b, self._placed,
                       {device: buffer for (arena, device), buffer in self._arenas.items()
                        if arena == b.arena},
                       {(device, slot): buffer
                        for (arena, device, slot), buffer in self._staging.items()
                        if arena == b.arena},
                       kept.state_of(name), self._hold, experts=kept.experts,
                       shares_arenas=users.count(b.arena) > 1,
                       is_brief=blueprint.is_tapped)
            for name, b in blueprint.members.items()}

    def __repr__(self) -> str:
        return repr(self.blueprint).replace("BlueprintSet", "PlanSet", 1)

    def _repr_svg_(self) -> str:
        """A notebook shows this: the picture of a :class:`PlanReport`, as if nothing had been
        allocated yet."""
        from unladen.schedule.show.report import PlanReport  # rarely needed
        taken = {m.device.name: m.taken_bytes or 0 for m in self.memory().devices}
        return PlanReport.of(self.blueprint, "plan", self.main.blueprint.limits.n_keys, taken).svg()

    @property
    def members(self) -> Mapping[str, Plan]:
        """The plan of each graph, by its name."""
        return self._members

    @property
    def main(self) -> Plan:
        """The plan of the language model's own graph."""
        return self._members[MAIN]

    @property
    def is_ended(self) -> bool:
        """Whether the memory was freed, so that no step can run any more."""
        return self._is_ended

    def expert_counts(self) -> ExpertCounts:
        """The counts of all caches of experts together."""
        return ExpertCounts(*map(sum, zip(*(plan.experts.counts() for plan in
                                            self._members.values()), strict=True)))

    def explain(self) -> str:
        """Each node, its device, and why it is there."""
        return self.blueprint.explain()

    def memory(self) -> MemoryPlan:
        """Bytes by device, as planned and as taken."""
        taken: dict[str, int] = {}
        for buffer in (*self._owned, *self._arenas.values()):
            taken[buffer.device.name] = taken.get(buffer.device.name, 0) + buffer.nbytes
        for plan in self._members.values():
            for name, n in plan.taken_bytes().items():
                taken[name] = taken.get(name, 0) + n
        planned = self.blueprint.memory
        return replace(planned, devices=[replace(m, taken_bytes=taken.get(m.device.name, 0))
                                         for m in planned.devices])

    def keep(self) -> Kept:
        """What a plan set after this one may take over, while this one goes on."""
        experts = {name: layer for plan in self._members.values()
                   for name, layer in plan.experts.layers.items()}
        return Kept(dict(self._placed), {name: p.keep() for name, p in self._members.items()},
                    experts)

    def rest(self) -> None:
        """Return the arenas' memory to the system while another plan set is used."""
        for arena in self._arenas.values():
            backend_of(arena.device.name).discard(arena, densely_used=True)

    def surrender(self, error: OutOfMemory) -> Kept:
        """Free everything but what a plan set after this one may take over. Every step of a plan
        raises ``error`` from now on. Devices stay open until :meth:`close`."""
        kept = self.keep()
        self._end(error.again().again)
        return kept

    def close(self) -> None:
        """Free everything, and let go of the devices: each is closed with its last plan set. Every
        step of a plan raises :class:`Cancelled` from now on. A second call does nothing."""
        self._end(_closed)
        self._hold.release()

    def _end(self, error: Callable[[], UnladenError]) -> None:
        self._is_ended = True
        for plan in self._members.values():
            plan.end(error)
        for held in (self._placed, self._owned, self._arenas, self._staging):
            held.clear()


def _closed() -> Cancelled:
    return Cancelled("the model was closed", hint="close it after its last request has ended")
