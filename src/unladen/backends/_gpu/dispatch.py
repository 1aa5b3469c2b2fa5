"""Dispatches: a kernel's name, its constants, the ranges it binds, and its number of workgroups.

A driver compiles the text of each kernel, binds the ranges by name, and in each step submits the
dispatches whose grid isn't None, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unladen.backends._gpu.step import KEYS_PER_SPLIT, TILE_TOKENS, RopeTable, Size
from unladen.backends._gpu.target import MAX_GROUPS, Constants, Range

Groups = tuple[int, int, int]
"""Workgroups in x, y and z."""
Grid = Callable[[Size], Groups | None]
"""The workgroups of a dispatch in a step of some size; None if the step doesn't need the
dispatch."""
Ranges = Mapping[str, Range | bytes]
"""The bindings of a kernel by name: memory, or the bytes of a struct whose numbers are unsigned or
floats of 32 bits."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """``kernel`` for weights in format ``quant`` ("": it reads no weights), and its bindings. The
    driver adds the step's words, and the codebook that a format's text asks for."""

    kernel: str
    quant: str
    constants: Constants
    ranges: Ranges
    grid: Grid

    @property
    def threads(self) -> int:
        """Threads of a workgroup, which is the constant WG of every kernel."""
        return int(self.constants["WG"])


@dataclass(frozen=True, slots=True)
class Lowered:
    """A segment as dispatches.

    * ``tables``: tables of RoPE that every step uploads.
    * ``chosen``: where the segment writes the tokens that it chose.
    * ``n_kv_heads``: the fewest key/value heads of its layers.
    * ``tile_tokens``: the most tokens of a tile of attention, in a prefill.
    * ``split_keys``: the keys of a workgroup's share, in a decode step.
    """

    dispatches: Sequence[Dispatch]
    tables: Sequence[RopeTable] = ()
    chosen: Range | None = None
    n_kv_heads: int = 1
    tile_tokens: int = TILE_TOKENS
    split_keys: int = KEYS_PER_SPLIT


def fold(n: int) -> tuple[int, int]:
    """A grid of two dimensions with at least ``n`` workgroups. Kernels do nothing in those beyond
    ``n``."""
    return (n, 1) if n <= MAX_GROUPS else (1 << 15, -(-n >> 15))
