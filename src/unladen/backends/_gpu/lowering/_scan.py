"""The dispatch of a recurrent node: threads for each sequence, which walk over its tokens."""

from __future__ import annotations

from unladen.backends._gpu.dispatch import Groups, Ranges
from unladen.backends._gpu.lowering.base import NO_CONSTANTS, Lowering
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Constants
from unladen.graph.graph import Node

THREADS = 64
"""Threads of a workgroup of these kernels."""


def scan(low: Lowering, node: Node, n_threads: int, ranges: Ranges,
         constants: Constants = NO_CONSTANTS) -> None:
    """Append a dispatch of the kernel named like the op, with ``n_threads`` threads for each
    sequence. A step has at most as many sequences as tokens; the threads for missing sequences do
    nothing."""
    n_groups, most = -(-n_threads // THREADS), low.segment.limits.n_seqs

    def grid(size: Size) -> Groups | None:
        return (n_groups, min(size.n_tokens, most), 1) if size.n_tokens else None

    slots = of_gpu(low.segment.slots[node.name]).whole()
    low.emit(node.op, grid, THREADS, {**ranges, "slots": slots, "y": low.value(node.outputs[0])},
             constants)
