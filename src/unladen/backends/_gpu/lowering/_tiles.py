"""Products of weights in tiles by matrix units: forms of x, and sizes of a workgroup's tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from unladen.backends._gpu.dispatch import Groups, Ranges, fold
from unladen.backends._gpu.joining import RUN
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix
from unladen.backends._gpu.lowering.base import Lowering, numbers, rows_word
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import ALIGNMENT, Constants, Range
from unladen.graph.graph import Weight
from unladen.quants import file_format, in_tiles

HALF = "HALF"
"""The form of x as float16, for codes that become float16 with their scales: as exact as int8."""
PARTS = {"F16": 2, "BF16": 3, HALF: 1}
"""How many numbers of 16 bits stand for one of float32, by the form's name."""
QUANTIZE_THREADS = 64
"""Threads of a workgroup that rounds x. Each thread takes a run, or two for tiles."""
SPLIT_THREADS = 128
"""Threads of a workgroup that splits a row of x."""
WARP = 32
"""Threads that multiply matrices together."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """``rows``: rows of w and of x in a workgroup's tile. ``warp``: those that a warp takes.
    ``stages``: how many steps of x the workgroup's memory holds."""

    rows: tuple[int, int]
    warp: tuple[int, int]
    stages: int

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.rows[0] // self.warp[0] * (self.rows[1] // self.warp[1]) * WARP

    @property
    def constants(self) -> Constants:
        """The constants of the kernel."""
        return {"TM": self.rows[0], "TN": self.rows[1], "WARP_ROWS": self.warp[0],
                "WARP_TOKENS": self.warp[1], "STAGES": self.stages}


CODED = Sizes((64, 32), (16, 32), 3), Sizes((128, 128), (32, 64), 3)
"""Sizes for x as int8, small and wide; workgroups of 48 KiB at most."""
SPLIT = {"F16": (Sizes((64, 32), (16, 32), 2), Sizes((128, 64), (32, 32), 2)),
         "BF16": (Sizes((64, 16), (16, 16), 2), Sizes((128, 32), (32, 32), 2))}
"""Sizes for x as a sum of numbers of 16 bits."""
WARPGROUPS = Sizes((128, 64), (16, 64), 2)
"""Sizes for four warps that multiply together."""
GROUPED = {"": Sizes((128, 64), (32, 32), 3), "F16": Sizes((128, 64), (32, 32), 2)}
"""Sizes for the rows of an expert, by the format of x's parts."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a product takes x: the bindings, the format of x's parts ("" for int8), and the sizes of
    tiles, small and wide."""

    ranges: Ranges
    kind: str
    by_warpgroups: bool = False

    @property
    def is_coded(self) -> bool:
        """Whether x is int8."""
        return not self.kind

    @property
    def constants(self) -> Constants:
        """The constants that name the form."""
        how: Constants = {"WGMMA": self.by_warpgroups, "INT_DOT": self.is_coded}
        return how if self.is_coded else {**how, "PARTS": PARTS[self.kind],
                                          "BRAIN": self.kind == "BF16"}

    def sizes(self, *, wide: bool) -> Sizes:
        """The sizes of a workgroup's tile."""
        if self.by_warpgroups:
            return WARPGROUPS
        return (CODED if self.is_coded else SPLIT[self.kind])[wide]


def form_of(low: Lowering, m: Matrix, coded: Ranges, split: Mapping[str, Ranges]) -> Form:
    """The form in which ``m``, in tiles, meets many rows of x."""
    if coded and low.target.family.has_codes(m.quant):
        return Form(split[HALF], HALF, True) if HALF in split else Form(coded, "")
    kind = part_kind(m.quant)
    return Form(split[kind], kind, "wgmma" in low.features and m.quant == "F16")


def part_kind(quant: str) -> str:
    """The format of x's parts for weights in ``quant``. Codes are whole numbers that float16
    holds."""
    return "BF16" if quant == "BF16" else "F16"


def kinds_of(weights: Iterable[Weight], *, coded: bool, by_warpgroups: bool) -> list[str]:
    """The forms of x that ``weights`` need in tiles. ``coded``: codes meet x as int8.
    ``by_warpgroups``: where they may, they become float16 instead if x has many rows."""
    formats = {file_format(w.quant) for w in weights if in_tiles(file_format(w.quant), w.shape)}
    found = {part_kind(q) for q in formats if q in PARTS or not coded}
    rest = coded and by_warpgroups and any(q not in PARTS for q in formats)
    return sorted(found | ({HALF} if rest else set()))


def split_bytes(n_rows: int, n_in: int, kind: str) -> tuple[int, int]:
    """Bytes of the parts of x, of ``n_rows`` rows, and of the factor of each row."""
    return _aligned(2 * PARTS[kind] * n_rows * n_in), _aligned(4 * n_rows)


def quantized(low: Lowering, rows: str, x: Range, n_in: int, at: tuple[Range, Range], runs: int,
              wanted: Callable[[int], bool]) -> Ranges:
    """Append a dispatch that rounds x to int8, and return the bindings of the result.

    * ``n_in``: the columns of x for each row of the step.
    * ``at``: memory for codes and scales.
    * ``runs``: how many runs of 16 columns have the same scale: one, or two for tiles.
    * ``wanted``: whether a step of so many rows needs it.
    """
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        n_groups = -(-n * n_in // (QUANTIZE_THREADS * RUN * runs))
        return (*fold(n_groups), 1) if n and wanted(n) else None

    low.emit("quantize", grid, QUANTIZE_THREADS,
             {"m": numbers(n_in), "x": x, "codes": at[0], "scales": at[1]},
             {"ROW_KIND": rows_word(rows), **({"RUNS": runs} if runs > 1 else {})})
    return {"x_codes": at[0], "x_scales": at[1]}


def split(low: Lowering, rows: str, x: Range, shape: tuple[int, int], kind: str,
          at: tuple[Range, Range]) -> Ranges:
    """Append a dispatch that makes x a sum of numbers in format ``kind``, and return the bindings
    of the result.

    * ``shape``: how many rows x has for each row of the step, and their columns.
    * ``at``: memory for parts and factors.
    """
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        return (*fold(n * shape[0]), 1) if n > FEW_ROWS else None

    factors: Ranges = {} if kind == "BF16" else {"factors": at[1]}
    low.emit("split_rows", grid, SPLIT_THREADS,
             {"m": numbers(shape[1], shape[0]), "x": x, "parts": at[0], **factors},
             {"PARTS": PARTS[kind], "BRAIN": kind == "BF16", "ROW_KIND": rows_word(rows)})
    return {"x_parts": at[0], **{f"x_{name}": r for name, r in factors.items()}}


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT
