"""Passes rewrite a graph: one file each, found by scanning this folder.

A file has ``run(graph) -> graph`` and says when it runs:

* ``PHASE``: one of :data:`PHASES`.
* ``AFTER``, ``BEFORE`` (optional): names of passes that run earlier or later than this one.

Passes that don't name one another give the same graph in either order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from types import ModuleType
from typing import NamedTuple

from unladen.discover import Found, name_of, place_of, search
from unladen.errors import ExtensionError
from unladen.graph.graph import Graph

PHASES = ("adapt", "fuse")
"""All passes of a phase run before those of the next.

``adapt`` changes what is computed (adapters), with nodes that every backend runs; always applied.
``fuse`` computes the same with fewer nodes; applied where a device lists it in ``fusions``.
"""


class Pass(NamedTuple):
    """A pass: its ``name``, its function ``run``, its file ``where``, and the file's ``PHASE``,
    ``AFTER`` and ``BEFORE``."""

    name: str
    where: str
    run: Callable[[Graph], Graph]
    phase: str
    after: frozenset[str]
    before: frozenset[str]

    @classmethod
    def of(cls, module: ModuleType) -> Pass:
        """The pass in ``module``. Raises :class:`TypeError` where ``run`` or ``PHASE`` is missing
        or has the wrong type."""
        if not callable(getattr(module, "run", None)):
            raise TypeError("it has no function run(graph)")
        phase = getattr(module, "PHASE", None)
        if phase not in PHASES:
            raise TypeError(f"PHASE is {phase!r}; use one of {', '.join(map(repr, PHASES))}")
        return cls(name_of(module), place_of(module), module.run, phase,
                   _names(module, "AFTER"), _names(module, "BEFORE"))


@functools.cache
def found() -> Found[Pass]:
    """Every pass by the name of its file, and the plug-ins that were left out."""
    return search("unladen.graph.passes", "passes", _of_module)


@functools.cache
def registry() -> Mapping[str, Pass]:
    """Every pass by the name of its file."""
    return found().named()


def apply(graph: Graph, fusions: Iterable[str]) -> Graph:
    """``graph`` after all passes of phase ``adapt`` and those of phase ``fuse`` named ``fusions``,
    in the order of :func:`ordered`. Raises :class:`ExtensionError`."""
    wanted = frozenset(fusions)
    passes = ordered(registry())
    if unknown := wanted - registry().keys():
        raise ExtensionError(
            f"a device lists {_quoted(unknown)} in fusions, and no pass has this name",
            hint=f"known passes: {', '.join(sorted(registry()))}")
    for each in passes:
        if each.phase == "adapt" or each.name in wanted:
            graph = each.run(graph)
            if not isinstance(graph, Graph):
                raise ExtensionError(f"{each.where}: run(graph) returned a {type(graph).__name__}",
                                     hint="return a Graph: graph.replace_nodes(nodes)")
    return graph


def ordered(passes: Mapping[str, Pass]) -> list[Pass]:
    """``passes`` in the order in which they run: by phase, then as ``after`` and ``before`` say,
    then by name. Raises :class:`ExtensionError` for names that no pass has and for an order that
    contradicts itself; the message names the files."""
    earlier = {name: set(each.after) | {other.name for other in passes.values()
                                        if PHASES.index(other.phase) < PHASES.index(each.phase)}
               for name, each in passes.items()}
    for each in passes.values():
        if unknown := (each.after | each.before) - passes.keys():
            raise ExtensionError(
                f"{each.where}: AFTER or BEFORE names {_quoted(unknown)}, and no pass has this "
                "name", hint=f"known passes: {', '.join(sorted(passes))}")
        for name in each.before:
            earlier[name].add(each.name)
    sorter = TopologicalSorter(earlier)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = [passes[name] for name in error.args[1]]
        raise ExtensionError(
            f"passes can't be put in order: {' before '.join(p.name for p in circle)} "
            f"({', '.join(dict.fromkeys(p.where for p in circle))})",
            hint=f"change PHASE, AFTER or BEFORE of one of them; phases run in the order "
                 f"{', '.join(PHASES)}") from None
    result: list[Pass] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        result.append(passes[ready[0]])
        sorter.done(ready.pop(0))
    return result


def _of_module(module: ModuleType) -> Iterator[tuple[str, Pass]]:
    each = Pass.of(module)
    yield each.name, each


def _names(module: ModuleType, attribute: str) -> frozenset[str]:
    names: object = getattr(module, attribute, frozenset())
    if not isinstance(names, set | frozenset) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"{attribute} is {names!r}; use a set of names of passes")
    return frozenset(names)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))
