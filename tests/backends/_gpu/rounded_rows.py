"""What kernels leave of rows as int8, or as sums of numbers of 16 bits; and the rounding that their
texts state, in NumPy."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from cases.base import Array, Bytes
from unladen.backends._gpu.dispatch import Lowered
from unladen.backends._gpu.target import Constants, Range
from unladen.backends.base import Backend, Buffer, Program

Rng = np.random.Generator
RUN = 16
"""Columns whose sum is kept; one or two such runs have one scale."""
SMALLEST = 2.0 ** -126
"""The smallest normal number of float32. A device may take smaller ones for 0."""
ODD = (0.0, 1e-44, 1e-39, 1e-36, 1e-30, 1.0, 1e30, 2e38)
"""Sizes of rows."""
COMMON = (0.0, 1e-42, 1e-20, 1e-10, 1e-3, 0.1, 10.0, 1e3, 1e10)
"""Sizes of rows whose squares and products are finite."""
SPOILED = (np.nan, np.inf, -np.inf)


def odd_rows(rng: Rng, n: int, columns: int, known: Sequence[float] = ODD) -> Array:
    """Rows of float32 numbers, the first of size 1 and each other one of one of the ``known``
    sizes; with runs of zeros and of small numbers. A quarter of the rows have a number that isn't
    finite."""
    sizes = rng.permutation(np.resize(rng.permutation(np.array(known)), n))
    sizes[0] = 1.0
    rows = rng.uniform(-1, 1, (n, columns)) * sizes[:, None]
    runs = rng.choice([0.0, 1e-3, 1.0, 1.0, 1.0], (n, columns // RUN))
    rows = (rows * runs.repeat(RUN, axis=1)).astype(np.float32)
    spoiled = rng.permutation(np.arange(1, n))[:n // 4]
    for row, value in zip(spoiled, np.resize(SPOILED, len(spoiled)), strict=True):
        rows[row, rng.integers(columns)] = value
    return rows


@dataclass(frozen=True, slots=True)
class Coded:
    """Rows of int8 ``codes``; the scale of each run of 16 columns, and the sum of its columns
    before rounding. ``together``: how many runs have one scale."""

    codes: Array
    scales: Array
    sums: Array
    together: int

    @classmethod
    def read(cls, codes: Bytes, scales: Bytes, shape: tuple[int, int], together: int) -> Coded:
        """From the memory that a kernel left."""
        n, columns = shape
        pairs = scales[:n * columns // RUN * 8].view(np.float32).reshape(n, -1, 2)
        return cls(codes[:n * columns].view(np.int8).reshape(shape), pairs[..., 0], pairs[..., 1],
                   together)

    def groups(self, x: Array) -> Array:
        """``x`` with an axis for the columns that have one scale."""
        return x.reshape(len(x), -1, RUN * self.together)

    def check_exactly(self, x: Array) -> None:
        """These must be the codes and the scales of ``x`` to the bit."""
        with np.errstate(all="ignore"):
            wanted = coded(x, self.together)
        np.testing.assert_array_equal(self.scales, wanted.scales, "scales")
        there = np.isfinite(self.groups(x)).all(axis=-1, keepdims=True)
        mine, codes = (np.where(there, self.groups(c), 0) for c in (self.codes, wanted.codes))
        np.testing.assert_array_equal(mine, codes, "codes")
        self.check_sums(x.astype(np.float64), np.zeros(x.shape))

    def check_closely(self, x: Array, off: Array | None = None) -> None:
        """These must stand for ``x``, rows in float64 of which the kernel's differ by ``off`` at
        most. A division may be wrong by three units in the last place. Numbers below the smallest
        normal one may be taken for 0. Where a group has a number that isn't finite, neither is its
        scale."""
        off = np.zeros(x.shape) if off is None else off
        there = np.isfinite(self.groups(x)).all(axis=-1)
        scales = self.scales.astype(np.float64)
        assert not np.isfinite(self.groups(scales.repeat(RUN, axis=1))[~there]).any(), "scales"
        scale = self.groups(scales.repeat(RUN, axis=1))[there]
        x_of, off_of = self.groups(x)[there], self.groups(off)[there]
        codes = self.groups(self.codes)[there].astype(np.float64)
        largest, room = np.abs(x_of).max(axis=-1), off_of.max(axis=-1)
        wrong = np.abs(127 * scale - largest[:, None])
        bound = room + 2.0 ** -21 * largest + 127 * SMALLEST
        assert np.all(wrong <= bound[:, None]), f"scales are off by {wrong.max()}"
        none = largest / 127 < SMALLEST / 2
        assert not codes[none].any(), "codes of nothing"
        wrong = np.abs(codes * scale - x_of)
        bound_of = 0.5001 * scale + off_of + np.where(largest < 256 * SMALLEST, largest, 0)[:, None]
        assert np.all(wrong <= bound_of + SMALLEST), "codes"
        self.check_sums(x, off)

    def check_sums(self, x: Array, off: Array) -> None:
        """Additions in any order give these sums of ``x``, which differs by ``off`` at most."""
        runs = x.reshape(len(x), -1, RUN)
        there = np.isfinite(runs).all(axis=-1)
        assert not np.isfinite(self.sums[~there]).any(), "sums"
        sizes = np.abs(runs[there]).sum(axis=-1)
        wrong = np.abs(self.sums[there].astype(np.float64) - runs[there].sum(axis=-1))
        bound = (off.reshape(runs.shape)[there].sum(axis=-1) + RUN * 2.0 ** -24 * sizes
                 + RUN * SMALLEST)
        # Larger ones may be infinite.
        assert np.all((wrong <= bound) | (sizes >= 2.0 ** 128)), "sums"


def coded(x: Array, together: int) -> Coded:
    """``x``, float32 [n, columns], as int8. The largest number of a group has the code 127 or -127.
    A group whose scale is no normal number has codes of 0; a scale is NaN where a number isn't
    finite."""
    groups = x.reshape(len(x), -1, RUN * together)
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    scales = largest * (np.float32(1) / np.float32(127))
    inverse = np.where(scales >= np.float32(SMALLEST), np.float32(1) / scales, np.float32(0))
    codes = np.nan_to_num(np.rint(groups * inverse)).astype(np.int8)
    known = np.where(np.isfinite(largest), scales, np.float32(np.nan))
    sums = x.reshape(len(x), -1, RUN).sum(axis=-1, dtype=np.float64)
    return Coded(codes.reshape(x.shape), known[..., 0].repeat(together, axis=1),
                 sums.astype(np.float32), together)


def parts_of(x: Array, n_parts: int, *, brain: bool) -> tuple[Array, Array]:
    """``x``, float32 [n, columns], as numbers of 16 bits, uint16 [n, n_parts, columns], and what
    the sum of a row's numbers is multiplied with. The first number of a column is the nearest to
    it, the next one is the nearest to what is left. Numbers of float16 are those of a row whose
    largest number is from 2^14 to 2^15, or smaller where it is subnormal."""
    factors = np.ones(len(x), np.float32)
    if not brain:
        largest = np.abs(x).max(axis=1)
        exponents = np.maximum(np.where(largest > 0, np.frexp(largest)[1] - 1, -112), -112)
        factors = np.ldexp(np.float32(1), exponents - 14).astype(np.float32)
        x = np.ldexp(x, 14 - exponents[:, None]).astype(np.float32)
    found = []
    for _ in range(n_parts):
        if brain:
            bits = x.view(np.uint32)
            taken = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
            found.append(taken.astype(np.uint16))
            x = x - (taken << 16).astype(np.uint32).view(np.float32)
        else:
            found.append(x.astype(np.float16).view(np.uint16))
            x = x - found[-1].view(np.float16).astype(np.float32)
    return np.stack(found, axis=1), factors


def parts_left(data: Bytes, shape: tuple[int, int], constants: Constants) -> Array:
    """The numbers of 16 bits that ``split_rows`` left, uint16 [n, PARTS, columns]. Columns 4 t to
    4 t + 3 of 16 are words t and t + 4."""
    n, columns = shape
    parts = int(constants["PARTS"])
    if constants["COLUMNS"]:
        padded = int(constants["PADDED"])
        words = data.view(np.uint16)[:-(-n // padded) * padded * parts * columns].reshape(
            -1, parts, columns // 16, padded // 8, 2, 8, 4, 2)
        # Rows first: the block, eight rows of it, the row; then the part and its columns.
        words = words.transpose(0, 3, 5, 1, 2, 4, 6, 7).reshape(-1, parts, columns // 16, 2, 4, 2)
    else:
        words = data.view(np.uint16)[:n * parts * columns].reshape(
            n, parts, columns // 16, 2, 4, 2)
    found: Array = words[:n].transpose(0, 1, 2, 4, 3, 5).reshape(n, parts, columns)
    return found


def only(backend: Backend, monkeypatch: pytest.MonkeyPatch, *kernels: str) -> None:
    """``backend`` compiles and runs these kernels alone from now on."""
    module: Any = sys.modules[type(backend).__module__]
    whole = module.lower

    def lower(*arguments: Any) -> Lowered:
        found: Lowered = whole(*arguments)
        return replace(found, dispatches=[d for d in found.dispatches if d.kernel in kernels])
    monkeypatch.setattr(module, "lower", lower)


def left(backend: Backend, program: Program, arena: Buffer, kernel: str, flag: str = ""
         ) -> tuple[Constants, Mapping[str, Bytes]]:
    """The constants of the dispatch of ``kernel`` that ran, with the constant ``flag``, and what is
    in its ranges of the arena."""
    _, size = program.step.pack()  # type: ignore[attr-defined]
    (d,) = (d for d in program.lowered.dispatches  # type: ignore[attr-defined]
            if d.kernel == kernel and d.grid(size) is not None
            and (not flag or d.constants.get(flag)))
    (part,) = arena.parts  # type: ignore[attr-defined]
    return d.constants, {
        name: backend.read(arena, r.nbytes, r.offset).copy() for name, r in d.ranges.items()
        if isinstance(r, Range) and r.buffer is part.buffer}
