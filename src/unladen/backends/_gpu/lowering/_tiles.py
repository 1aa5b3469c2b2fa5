"""Products of weights in tiles by matrix units: forms of x, and sizes of a workgroup's tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from unladen.backends._gpu.dispatch import Groups, Ranges, fold
from unladen.backends._gpu.lowering._matrix import Matrix
from unladen.backends._gpu.lowering.base import Lowering, numbers, rows_word
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import ALIGNMENT, Constants, Range
from unladen.graph.graph import Weight
from unladen.quants import file_format, in_tiles

HALF = "HALF"
"""The form of x as float16, for codes that become float16 with their scales: as exact as int8."""
COLUMNS = "/columns"
"""The end of a form's name where x has the order of bulk copies (``split_rows.h``)."""
PADDED = 128
"""The rows of x that are together in that order, the most in a tile. The last ones are padded."""
PARTS = {"F16": 2, "BF16": 3, HALF: 1}
"""How many numbers of 16 bits stand for one of float32, by the form's name without its end."""
QUANTIZE_THREADS = 64
"""Threads of a workgroup that rounds x. Each thread takes four columns."""
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
WARPGROUPS = (Sizes((64, 32), (16, 32), 8), Sizes((128, 64), (16, 64), 8),
              Sizes((128, 128), (16, 128), 8), Sizes((256, 128), (16, 128), 8))
"""Sizes for four warps that multiply together, from small to wide; a stage has 64 columns of one
part. See docs/concepts/gpu-kernels.md for the choice."""
STAGE_BYTES, FIXED_BYTES, UNASKED_BYTES = 128, 1 << 10, 48 << 10
"""Bytes of a row in a stage, of a workgroup's memory besides, and of what any launch can give."""
GROUPED = {"": Sizes((128, 64), (32, 32), 3), "F16": Sizes((128, 64), (32, 32), 2)}
"""Sizes for the rows of an expert, by the format of x's parts."""
GROUPED_WARPGROUPS = {HALF: Sizes((128, 64), (16, 64), 3), "F16": Sizes((128, 64), (16, 64), 2)}
"""The same for four warps that multiply together."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a product takes x: the bindings, and the form's name ("" for int8). ``by_warpgroups``:
    four warps multiply together, where a launch can give a workgroup ``launched_bytes``."""

    ranges: Ranges
    kind: str
    by_warpgroups: bool = False
    launched_bytes: int = 0

    @property
    def is_coded(self) -> bool:
        """Whether x is int8."""
        return not self.kind

    @property
    def constants(self) -> Constants:
        """The constants that name the form."""
        if self.is_coded:
            return {"WGMMA": False, "INT_DOT": True}
        return {"WGMMA": self.by_warpgroups, "INT_DOT": False, "BULK": in_columns(self.kind),
                **part_constants(self.kind)}

    @property
    def sizes(self) -> tuple[Sizes, ...]:
        """The sizes of a workgroup's tile, from small to wide."""
        if self.by_warpgroups:
            most = max(self.launched_bytes, UNASKED_BYTES) - FIXED_BYTES
            return tuple(s for s in WARPGROUPS if s.stages * STAGE_BYTES * s.rows[1] <= most)
        return CODED if self.is_coded else SPLIT[self.kind]

    @property
    def grouped(self) -> Sizes:
        """The sizes of a workgroup's tile for the rows of an expert."""
        return (GROUPED_WARPGROUPS if self.by_warpgroups else GROUPED)[self.kind]


def form_of(low: Lowering, m: Matrix, coded: Ranges, split: Mapping[str, Ranges]) -> Form:
    """The form in which ``m``, in tiles, meets many rows of x."""
    is_plain = m.quant in PARTS
    mine = m.quant if is_plain else HALF
    if low.target.family.has_codes(m.quant) or is_plain:
        for kind in (mine + COLUMNS, HALF):
            if kind in split and (kind != HALF or not is_plain):
                return Form(split[kind], kind, True, low.target.launched_bytes)
    if coded and not is_plain:
        return Form(coded, "")
    kind = part_kind(m.quant)
    return Form(split[kind], kind, "wgmma" in low.features and m.quant == "F16")


def part_kind(quant: str) -> str:
    """The format of x's parts for weights in ``quant``. Codes are whole numbers that float16
    holds."""
    return "BF16" if quant == "BF16" else "F16"


def in_columns(kind: str) -> bool:
    """Whether x has the order of bulk copies in this form."""
    return kind.endswith(COLUMNS)


def n_parts(kind: str) -> int:
    """How many numbers of 16 bits stand for one of float32 in this form."""
    return PARTS[kind.removesuffix(COLUMNS)]


def part_constants(kind: str) -> Constants:
    """The constants of kernels that write or read x in this form."""
    known: Constants = {"PARTS": n_parts(kind), "BRAIN": kind.startswith("BF16")}
    return {**known, "PADDED": PADDED} if in_columns(kind) else known


def kinds_of(weights: Iterable[Weight], *, coded: bool, by_warpgroups: bool) -> list[str]:
    """The forms of x that ``weights`` need in tiles. ``coded``: codes meet x as int8.
    ``by_warpgroups``: where they may, they become float16 instead if x has many rows."""
    formats = {file_format(w.quant) for w in weights if in_tiles(file_format(w.quant), w.shape)}
    if not by_warpgroups:
        return sorted({part_kind(q) for q in formats if q in PARTS or not coded})
    return sorted({q + COLUMNS if q in PARTS else HALF + COLUMNS if coded else "F16"
                   for q in formats})


def split_bytes(n_rows: int, n_in: int, kind: str) -> tuple[int, int]:
    """Bytes of the parts of x, of ``n_rows`` rows, and of the factor of each row."""
    n_each = -(-n_rows // PADDED) * PADDED if in_columns(kind) else n_rows
    return _aligned(2 * n_parts(kind) * n_each * n_in), _aligned(4 * n_rows)


def quantized(low: Lowering, rows: str, x: Range, n_in: int, at: tuple[Range, Range], runs: int,
              wanted: Callable[[int], bool], *, is_joined: bool = False) -> Ranges:
    """Append a dispatch that rounds x to int8, and return the bindings of the result.

    * ``n_in``: the columns of x for each row of the step.
    * ``at``: memory for codes and scales.
    * ``runs``: how many runs of 16 columns have the same scale: one, or two for tiles.
    * ``wanted``: whether a step of so many rows needs it.
    * ``is_joined``: x is rounded already in steps in which workgroups share keys.
    """
    def grid(size: Size) -> Groups | None:
        if is_joined and size.n_splits > 1:
            return None
        n = size.rows(rows)
        n_groups = -(-n * n_in // (4 * QUANTIZE_THREADS))
        return (*fold(n_groups), 1) if n and wanted(n) else None

    low.emit("quantize", grid, QUANTIZE_THREADS,
             {"m": numbers(n_in), "x": x, "codes": at[0], "scales": at[1]},
             {"ROW_KIND": rows_word(rows), "KEPT": 1, **run_constants(low, runs)})
    return {"x_codes": at[0], "x_scales": at[1]}


def run_constants(low: Lowering, runs: int) -> Constants:
    """The constants of kernels that round rows, with ``runs`` runs of 16 columns for a scale.
    Threads meet by shuffles on chips with matrix units, elsewhere in the workgroup's memory."""
    return {"RUNS": runs, "SHUFFLES": "mma" in low.target.features}


def split(low: Lowering, rows: str, x: Range, shape: tuple[int, int], kind: str,
          at: tuple[Range, Range], within: range) -> Ranges:
    """Append a dispatch that brings x into the form ``kind``, and return the bindings of the
    result.

    * ``shape``: how many rows x has for each row of the step, and their columns.
    * ``at``: memory for parts and factors.
    * ``within``: the numbers of rows with which a step needs it.
    """
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        return (*fold(n * shape[0]), 1) if n in within else None

    factors: Ranges = {} if kind.startswith("BF16") else {"factors": at[1]}
    low.emit("split_rows", grid, SPLIT_THREADS,
             {"m": numbers(shape[1], shape[0]), "x": x, "parts": at[0], **factors},
             {**part_constants(kind), "COLUMNS": in_columns(kind), "ROW_KIND": rows_word(rows)})
    name = "x_columns" if in_columns(kind) else "x_parts"
    return {name: at[0], **{f"x_{name}": r for name, r in factors.items()}}


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT
