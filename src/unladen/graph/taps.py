"""Taps: values of a graph that a caller reads or changes while the graph is computed.

A value that is read becomes an output of the graph. A value that may be changed is also in
:attr:`Graph.changed`. Both count as readers, so no pass fuses such a value away. Graphs are marked
before any pass rewrites them, since the names are those that the architecture gave.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import replace

from unladen.errors import InvalidArgument
from unladen.graph.graph import Graph, Value

PREFIX = "tap "
"""The name of an output that is a tapped value begins with this."""


def points(graph: Graph) -> Mapping[str, Value]:
    """The values that can be tapped, by name in program order: those with a row for each token, or
    for each token whose logits are wanted."""
    return {v.name: v for node in graph.nodes for v in node.outputs
            if v.shape and isinstance(v.shape[0], str)}


def find(graph: Graph, patterns: Iterable[str], parameter: str) -> list[str]:
    """The names of the values that match ``patterns``, in program order.

    A pattern is the name of a value, that of a node (all its values), or a shell pattern
    (``blk.*.ffn_out``). ``parameter`` names it in errors. Raises :class:`InvalidArgument` where a
    pattern matches nothing.
    """
    known = points(graph)
    of_node = {n.name: [v.name for v in n.outputs if v.name in known] for n in graph.nodes}
    found: set[str] = set()
    for pattern in patterns:
        names = _matches(pattern, known, of_node)
        if not names:
            raise InvalidArgument(_reason(pattern, parameter, of_node),
                                  hint=_suggest(pattern, [*known, *of_node]))
        found.update(names)
    return [name for name in known if name in found]


def _matches(pattern: str, known: Mapping[str, Value], of_node: Mapping[str, list[str]]
             ) -> list[str]:
    if pattern in known:
        return [pattern]
    if pattern in of_node:
        return of_node[pattern]
    return [name for node, names in of_node.items() for name in names
            if fnmatch.fnmatchcase(node, pattern) or fnmatch.fnmatchcase(name, pattern)]


def _reason(pattern: str, parameter: str, of_node: Mapping[str, list[str]]) -> str:
    if pattern in of_node:
        return f"{parameter}: {pattern!r} makes no value that could be tapped"
    return f"{parameter}: {pattern!r} matches no node of the model"


def _suggest(pattern: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(pattern, list(dict.fromkeys(names)), n=4, cutoff=0.5)
    similar = f"did you mean {', '.join(close)}? " if close else ""
    return f"{similar}model.nodes lists all names"


def mark(graph: Graph, looked: Iterable[str], changed: Iterable[str]) -> Graph:
    """``graph`` with the values named ``looked`` as outputs, named with :data:`PREFIX`, and with
    those named ``changed`` in :attr:`Graph.changed`."""
    known = points(graph)
    outputs = {PREFIX + name: known[name] for name in looked}
    return replace(graph, outputs={**graph.outputs, **outputs},
                   changed=frozenset(known[name] for name in changed))


def is_tapped(graph: Graph, value: Value) -> bool:
    """Whether a caller reads or may change ``value``."""
    return value in graph.changed or graph.outputs.get(PREFIX + value.name) is value
