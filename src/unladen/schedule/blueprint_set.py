"""The blueprints of all graphs of a model, counted together.

A model may be several graphs: the language model itself, one that guesses tokens ahead, an encoder
of pictures. They share devices, weights and, where they take turns, the arenas. Most models are a
set of one graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unladen.backends.base import Device, KVLayout
from unladen.graph.graph import Graph
from unladen.schedule import fit
from unladen.schedule.blueprint import Blueprint, make_blueprint
from unladen.schedule.needs import Need, distinct
from unladen.schedule.options import Change, PlanOptions
from unladen.schedule.place import Choice
from unladen.types import MAIN, Limits


@dataclass(frozen=True, slots=True)
class GraphWish:
    """The wish for one graph of a model: its largest step, its cache, and the options of its plan.
    ``arena``: graphs with the same name here take turns: a step of one may overwrite the outputs of
    another. They share one arena."""

    graph: Graph
    limits: Limits
    layout: KVLayout
    options: PlanOptions
    arena: str = MAIN


class FileBytes(NamedTuple):
    """Bytes of a file's weights on all devices: those of weights that are used where they lie in
    the mapped file, and those of weights that are copied."""

    mapped: int
    copied: int


@dataclass(frozen=True, slots=True)
class BlueprintSet:
    """The blueprints of a model's graphs by name, of which :data:`~unladen.types.MAIN` is the
    language model's own. ``needs``: the weights of all graphs, each once. ``memory``: the bytes
    that all graphs take together."""

    members: Mapping[str, Blueprint]
    needs: Sequence[Need]
    memory: fit.MemoryPlan

    @classmethod
    def of(cls, members: Mapping[str, Blueprint]) -> BlueprintSet:
        """The set of ``members``, with their weights and bytes counted together."""
        return cls(members, distinct(b.needs for b in members.values()),
                   fit.count({name: b.footprint() for name, b in members.items()}))

    @property
    def main(self) -> Blueprint:
        """The blueprint of the language model's own graph."""
        return self.members[MAIN]

    @property
    def devices(self) -> list[Device]:
        """Every device that a graph uses, once."""
        return list({d.name: d for b in self.members.values() for d in b.devices}.values())

    @property
    def is_tapped(self) -> bool:
        """Whether a tap looks at values of a graph, or changes some."""
        return any(b.options.is_tapped for b in self.members.values())

    def __repr__(self) -> str:
        names = "" if len(self.members) == 1 else f"{', '.join(self.members)}: "
        return repr(self.main).replace("Blueprint:", f"BlueprintSet: {names}", 1).replace(
            repr(self.main.memory), repr(self.memory))

    def _repr_svg_(self) -> str:
        """A notebook shows this: the picture of a :class:`PlanReport`."""
        from unladen.schedule.show.report import PlanReport  # imported here: it imports this module
        return PlanReport.of(self, "plan", self.main.limits.n_keys).svg()

    def with_blocks(self, n_blocks: int) -> BlueprintSet:
        """The same set with ``n_blocks`` blocks in the cache of each graph."""
        return BlueprintSet.of({name: b.with_blocks(n_blocks) for name, b in self.members.items()})

    def arena_bytes(self) -> dict[tuple[str, str], int]:
        """The bytes of every arena, by its name and that of its device."""
        sizes: dict[tuple[str, str], int] = {}
        for made in self.members.values():
            for device, n in made.arena_bytes().items():
                key = made.arena, device
                sizes[key] = max(n, sizes.get(key, 0))
        return {key: n for key, n in sizes.items() if n}

    def staging_bytes(self) -> dict[tuple[str, str, int], int]:
        """The bytes of every staging buffer, by the arena's name, its device's, and its number.
        Graphs that take turns share them."""
        sizes: dict[tuple[str, str, int], int] = {}
        for made in self.members.values():
            for (device, slot), n in made.staging_bytes().items():
                key = made.arena, device, slot
                sizes[key] = max(n, sizes.get(key, 0))
        return sizes

    def n_offloaded(self) -> int:
        """The number of layers on devices other than the host, in the graph with the most of them
        there."""
        return max(b.n_offloaded() for b in self.members.values())

    def file_bytes(self) -> dict[str, FileBytes]:
        """The bytes of each file's weights, by the file's key."""
        sizes: dict[str, FileBytes] = {}
        for need in self.needs:
            mapped, copied = sizes.get(need.weight.file, FileBytes(0, 0))
            sizes[need.weight.file] = FileBytes(mapped + need.nbytes * need.mapped,
                                                copied + need.nbytes * (not need.mapped))
        return sizes

    def explain(self) -> str:
        """Each node, its device, and why it is there; under the graph's name if there are several.
        """
        if len(self.members) == 1:
            return self.main.explain()
        return "\n".join(f"{name}:\n{b.explain()}" for name, b in self.members.items())

    def offloaded(self) -> list[str]:
        """The lines of :meth:`Blueprint.offloaded`, with the graph's name if there are several."""
        if len(self.members) == 1:
            return self.main.offloaded()
        return [f"{name}: {line}" for name, b in self.members.items() for line in b.offloaded()]


def make_blueprints(wishes: Mapping[str, GraphWish],
                    choices: Mapping[str, Choice] | None = None) -> BlueprintSet:
    """Place all graphs of a model, by name, and count them together; allocates nothing.

    Where a placement is left open, the graphs choose in the order of ``wishes``: each gets the room
    that the graphs before it leave. ``choices``: the placements of an earlier set. Raises what
    :func:`~unladen.schedule.blueprint.make_blueprint` raises.
    """
    members: dict[str, Blueprint] = {}
    for name, wish in wishes.items():
        members[name] = make_blueprint(
            wish.graph, wish.limits, wish.layout, wish.options, (choices or {}).get(name),
            arena=wish.arena, beside={n: b.footprint() for n, b in members.items()})
    return BlueprintSet.of(members)


def retapped(made: BlueprintSet, looked: Iterable[str], changes: Mapping[str, Change]
             ) -> BlueprintSet:
    """``made`` again, with other taps on the main graph and the same placement."""
    wishes = {name: GraphWish(b.source, b.limits, b.layout, b.options, b.arena)
              for name, b in made.members.items()}
    options = replace(made.main.options, looked=tuple(looked), changes=changes)
    wishes[MAIN] = replace(wishes[MAIN], options=options)
    return make_blueprints(wishes, {name: b.choice for name, b in made.members.items()})
