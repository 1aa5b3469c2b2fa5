"""Which layers see no more than a window of the last tokens."""

from __future__ import annotations

from collections.abc import Iterable

from unladen.graph.graph import Node
from unladen.graph.ops.attention import Scoring

WHOLE = 0
"""In place of a window: layers that see whole sequences."""


def windows_of(nodes: Iterable[Node]) -> dict[int, int]:
    """By cache, how many of the last tokens all that read it see, their own among them; ``WHOLE``
    where one of ``nodes`` sees more than a sliding window. The largest of several windows counts.
    """
    every, found = list(nodes), dict[int, int]()
    for node in every:
        if node.state is None or node.op == "kv_write":
            continue  # what only writes sees nothing
        layer, window = node.state.layer, _window(node)
        before = found.get(layer, window)
        found[layer] = max(window, before) if window and before else WHOLE
    return {n.state.layer: found.get(n.state.layer, WHOLE) for n in every if n.state is not None}


def _window(node: Node) -> int:
    if node.op != "attention":
        return WHOLE
    scoring = Scoring.of(node)
    return scoring.window if scoring.causal and scoring.window_kind == "sliding" else WHOLE
