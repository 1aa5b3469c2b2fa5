"""Rewrites of a graph: ``run(graph) -> graph``, one file each, found by scanning this folder.

A backend names in ``fusions`` the passes whose results it runs; the others never see them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from unladen.discover import modules
from unladen.graph.graph import Graph

Pass = Callable[[Graph], Graph]


@functools.cache
def registry() -> Mapping[str, Pass]:
    """Every pass by the name of its file."""
    return {m.__name__.rpartition(".")[2]: m.run
            for m in modules("unladen.graph.passes", "passes")}


def apply(graph: Graph, names: Iterable[str]) -> Graph:
    """``graph`` after the passes ``names``, in the order of their names."""
    for name in sorted(names):
        graph = registry()[name](graph)
    return graph
