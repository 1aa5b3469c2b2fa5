"""Kernels in Python over whole grids: what a family of texts gets to know, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends._gpu.dispatch import Dispatch, Groups
from unladen.backends._gpu.step_header import CONSTANTS

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Call:
    """A dispatch in one step: the words of the step, and how many workgroups run."""

    dispatch: Dispatch
    words: Array
    groups: Groups

    def array(self, name: str, dtype: Any = np.float32) -> Array:
        """What is bound as ``name``; a kernel writes into it."""
        r = self.dispatch.ranges[name]
        assert not isinstance(r, bytes)
        found: Array = r.buffer[r.offset:r.offset + r.nbytes].view(dtype)
        return found

    def params(self, kinds: str, name: str = "params") -> tuple[Any, ...]:
        """The members of a struct: "I" for a whole number, "f" for a float32."""
        data = self.dispatch.ranges[name]
        assert isinstance(data, bytes)
        return struct.unpack(f"<{kinds}", data)

    def constant(self, name: str) -> int:
        """A number that the text was compiled for, or whether lines are kept."""
        return int(self.dispatch.constants.get(name, 0))

    @property
    def n_rows(self) -> int:
        """Rows of this step."""
        return int(self.words[self.dispatch.constants["ROW_KIND"]])

    def batch(self, which: int, i: Array) -> Array:
        """Entries of the batch's array whose place is in word ``which``."""
        found: Array = self.words[self.words[which] + i]
        return found

    def elements(self, n: int) -> Array:
        """The elements that threads take, of ``n``."""
        x, y, _ = self.groups
        return np.arange(min(x * y * self.dispatch.threads, n))


def add(call: Call) -> None:
    (n_cols,) = call.params("I")
    i = call.elements(call.n_rows * n_cols)
    a, b, y = map(call.array, "aby")
    y[i] = a[i] + b[i % n_cols if call.constant("ROW") else i]


def clamp(call: Call) -> None:
    n_cols, limit = call.params("If")
    i = call.elements(call.n_rows * n_cols)
    call.array("y")[i] = np.clip(call.array("x")[i], -limit, limit)


def columns(call: Call) -> None:
    n_cols, size, first, count = call.params("4I")
    i = call.elements(call.n_rows * n_cols)
    call.array("y")[i] = call.array("x")[i // count * size + first + i % count]


def scale(call: Call) -> None:
    n_cols, s, n_weights = call.params("IfI")
    i = call.elements(call.n_rows * n_cols)
    value = np.float32(s) * call.array("x")[i]
    if call.constant("WEIGHT"):
        factor = call.array("w")[i % n_cols // (n_cols // n_weights)]
        value = value / factor if call.constant("DIVIDE") else value * factor
    call.array("y")[i] = value


def select_rows(call: Call) -> None:
    (n_cols,) = call.params("I")
    i = call.elements(call.n_rows * n_cols)
    row = call.batch(CONSTANTS["OUT_ROWS"], i // n_cols)
    call.array("y")[i] = call.array("x")[row * n_cols + i % n_cols]


def rms_norm(call: Call) -> None:
    at_once = 4 if call.constant("FOURS") else 1
    n_items, size, eps, period = call.params("IIfI")
    n_groups = min(call.groups[0] * call.groups[1], call.n_rows * (n_items // size))
    x = call.array("x")[:n_groups * size * at_once].reshape(n_groups, -1).astype(np.float64)
    y = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps)
    if call.constant("WEIGHT"):
        i = np.arange(n_groups * size) % n_items % period
        w = call.array("w")[:period * at_once].reshape(period, at_once)[i]
        y *= w.reshape(y.shape)
    call.array("y")[:y.size] = y.reshape(-1)


def embed(call: Call) -> None:
    first_row, n_rows, _, n_in, _ = call.params("5I", "m")
    w = call.array("w")[:n_rows * n_in].reshape(n_rows, n_in)
    each_row = -(-n_in // (call.dispatch.threads * 8))
    tokens = np.arange(call.groups[0] * call.groups[1] // each_row)
    row = call.batch(call.constant("IDS"), tokens) - first_row
    here = (row >= 0) & (row < n_rows)
    y = call.array("y")[:len(tokens) * n_in].reshape(-1, n_in)
    y[here] = w[row[here]]


def matvec(call: Call) -> None:
    """Products of few rows, of one weight or of several."""
    ends = ("", "1", "2")[:call.constant("MATRICES") or 1]
    matrices = call.params("8I" * len(ends), "matrices") if call.constant("MATRICES") else (
        call.params("5I", "m"))
    n_groups, n_rows = call.groups[0] * call.groups[1], call.groups[2] * call.constant("NT")
    for end, at in zip(ends, range(0, 8 * len(ends), 8), strict=True):
        m = matrices[at:at + 5]
        mine = min(n_groups, -(-m[1] // call.constant("R")))
        n_groups -= mine
        bias = call.array(f"bias{end}") if call.constant(f"BIAS{end}") else None
        _store(call, m, product(call, f"w{end}", m, bias), f"y{end}",
               mine * call.constant("R"), n_rows)


def matmul(call: Call) -> None:
    """Products of many rows, in tiles."""
    m = call.params("5I", "m")
    bias = call.array("bias") if call.constant("BIAS") else None
    _store(call, m, product(call, "w", m, bias), "y",
           call.groups[0] * call.groups[1] * call.constant("TM"),
           call.groups[2] * call.constant("TN"))


def product(call: Call, role: str, m: tuple[int, ...], bias: Array | None) -> Array:
    """float64 [rows of x, rows of the matrix], with the bias."""
    first_row, n_rows, _, n_in, row_bytes = m
    assert row_bytes == 4 * n_in and not call.constant("SECOND")
    w = call.array(role)[:n_rows * n_in].reshape(n_rows, n_in).astype(np.float64)
    x = call.array("x")[:call.n_rows * n_in].reshape(-1, n_in)
    y: Array = x @ w.T
    return y if bias is None else y + bias[first_row:first_row + n_rows]


def _store(call: Call, m: tuple[int, ...], value: Array, role: str, n_rows: int, n_tokens: int
           ) -> None:
    """Store what workgroups for ``n_rows`` rows of the matrix and ``n_tokens`` of x make."""
    value = value[:n_tokens, :n_rows]
    rows = slice(m[0], m[0] + value.shape[1])
    if call.constant("RESIDUAL"):
        residual = call.array("residual")[:call.n_rows * m[2]].reshape(-1, m[2])
        value = value + residual[:len(value), rows]
    call.array(role)[:call.n_rows * m[2]].reshape(-1, m[2])[:len(value), rows] = value


def unused(call: Call) -> None:
    """Kernels of an op that no case here may reach."""
    raise AssertionError(call.dispatch.kernel)


KERNELS: Mapping[str, Callable[[Call], None]] = MappingProxyType({
    "add": add, "clamp": clamp, "columns": columns, "scale": scale, "select_rows": select_rows,
    "rms_norm": rms_norm, "embed": embed, "matvec": matvec, "matmul": matmul,
    "matmul_coded": unused, "quantize": unused, "glu": unused})
"""By name."""
