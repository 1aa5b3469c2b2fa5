"""Dispatches: a kernel's name, what it is compiled for, what it binds, and how many workgroups.

A driver compiles the text of each kernel, binds the ranges by name, and in each step submits the
dispatches whose grid isn't None, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unladen.backends._gpu.step import RopeTable, Size
from unladen.backends._gpu.target import MAX_GROUPS, Constants, Range

Groups = tuple[int, int, int]
"""Workgroups in x, y and z."""
Grid = Callable[[Size], Groups | None]
"""How many workgroups a step of some size takes; None: it doesn't need this dispatch."""
Ranges = Mapping[str, Range | bytes]
"""What a kernel binds, by its name for it: memory, or the bytes of a struct of numbers, each an
unsigned or a float of 32 bits."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """``kernel`` for weights in format ``quant`` ("": it reads none), with all that it binds but
    the step's words and the codebook that a format's text asks for."""

    kernel: str
    quant: str
    constants: Constants
    ranges: Ranges
    grid: Grid

    @property
    def threads(self) -> int:
        """Threads of a workgroup: the constant WG of every kernel."""
        return int(self.constants["WG"])


@dataclass(frozen=True, slots=True)
class Lowered:
    """A segment as dispatches. ``tables``: rotations that every step uploads. ``chosen``: where the
    segment leaves the tokens that it chose. ``n_kv_heads``: the fewest of its layers."""

    dispatches: Sequence[Dispatch]
    tables: Sequence[RopeTable] = ()
    chosen: Range | None = None
    n_kv_heads: int = 1


def fold(n: int) -> tuple[int, int]:
    """At least ``n`` workgroups in two dimensions; kernels leave out those beyond ``n``."""
    return (n, 1) if n <= MAX_GROUPS else (1 << 15, -(-n >> 15))
