"""Rewrites of a graph: ``run(graph) -> graph``, one file each, found by scanning this folder.

A backend names in ``fusions`` the passes whose results it runs; the others never see them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType

from unladen.discover import Found, name_of, search
from unladen.graph.graph import Graph

Pass = Callable[[Graph], Graph]


@functools.cache
def found() -> Found[Pass]:
    """Every pass by the name of its file."""
    return search("unladen.graph.passes", "passes", _of_module)


@functools.cache
def registry() -> Mapping[str, Pass]:
    """Every pass by the name of its file."""
    return found().named()


def _of_module(module: ModuleType) -> Iterator[tuple[str, Pass]]:
    if not callable(module.run):
        raise TypeError("run is no function")
    yield name_of(module), module.run


def apply(graph: Graph, names: Iterable[str]) -> Graph:
    """``graph`` after the passes ``names``, in the order of their names."""
    for name in sorted(names):
        graph = registry()[name](graph)
    return graph
