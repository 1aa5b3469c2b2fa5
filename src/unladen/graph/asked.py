"""The limits that a graph needs beyond a count of tokens: rows, axes, spans, adapters."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.graph import Graph
from unladen.types import Limits


def asked(limits: Limits, graph: Graph) -> Limits:
    """``limits`` with room for all arrays of a :class:`~unladen.graph.batch.Batch` that ``graph``
    reads. Each token may bring a row of embeddings."""
    axes, rows = (graph.inputs[name].shape[1:] if name in graph.inputs else ()
                  for name in ("positions", "rows"))
    n_axes, row_width = axes[0] if axes else 1, rows[0] if rows else 0
    assert isinstance(n_axes, int) and isinstance(row_width, int), graph
    return replace(limits, n_axes=n_axes, row_width=row_width,
                   n_rows=limits.n_tokens if rows else 0,
                   spans=any(node.attrs.get("spans") for node in graph.nodes),
                   adapters=any(node.op == "adapter_scale" for node in graph.nodes))
