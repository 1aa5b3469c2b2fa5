"""Block formats: one NumPy truth per GGUF tensor type, found by scanning this folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from unladen.discover import classes
from unladen.errors import UnsupportedQuant
from unladen.quants.base import Quant

__all__ = ["Quant", "by_id", "dequantize", "get", "quantize", "registry"]


@functools.cache
def registry() -> Mapping[str, type[Quant]]:
    """Every block format by GGUF's name for it."""
    return {c.name: c for c in classes("unladen.quants", "quants", Quant)}


@functools.cache
def _by_id() -> Mapping[int, type[Quant]]:
    return {c.type_id: c for c in registry().values()}


def get(name: str) -> type[Quant]:
    """The format called ``name`` ("Q4_K"); raises :class:`UnsupportedQuant`."""
    try:
        return registry()[name]
    except KeyError:
        raise UnsupportedQuant(f"no block format is called {name!r}",
                               hint="known: " + ", ".join(sorted(registry()))) from None


def by_id(type_id: int) -> type[Quant] | None:
    """The format with GGUF's number ``type_id``, or None."""
    return _by_id().get(type_id)


def dequantize(name: str, raw: npt.NDArray[np.uint8], shape: tuple[int, ...]
               ) -> npt.NDArray[np.float32]:
    """Decode the bytes of a whole tensor to float32 of ``shape`` (slowest dimension first)."""
    quant = get(name)
    blocks = np.ascontiguousarray(raw).view(np.uint8).reshape(-1, quant.block_bytes)
    return quant.dequantize(blocks).reshape(shape)


def quantize(name: str, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Encode float32 [..., n] row by row; returns uint8 [..., row_bytes]."""
    quant = get(name)
    if values.shape[-1] % quant.block_size:
        raise UnsupportedQuant(
            f"rows of {values.shape[-1]} are no whole number of {name} blocks of "
            f"{quant.block_size}", hint="choose a type with a smaller block")
    rows = np.ascontiguousarray(values, dtype=np.float32)
    blocks = quant.quantize(rows.reshape(-1, quant.block_size))
    return blocks.reshape(*values.shape[:-1], quant.row_bytes(values.shape[-1]))
