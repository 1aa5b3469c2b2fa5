"""Block formats: one NumPy truth per GGUF tensor type, found by scanning this folder."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unladen.discover import Found, by_class, search
from unladen.errors import InvalidArgument, UnsupportedQuant
from unladen.quants import tiles
from unladen.quants._codebooks import grid as codebook
from unladen.quants.base import Quant

__all__ = ["Quant", "by_id", "codebook", "convert", "dequantize", "file_format", "get", "in_tiles",
           "packer_of", "quantize", "registry"]


@functools.cache
def found() -> Found[type[Quant]]:
    """Every block format by GGUF's name for it and by its number in a file."""
    return search("unladen.quants", "quants",
                  by_class(Quant, lambda c: (str(c.name), int(c.type_id))))


@functools.cache
def registry() -> Mapping[str, type[Quant]]:
    """Every block format by GGUF's name for it."""
    return found().named()


def file_format(name: str) -> str:
    """The format of files whose blocks format ``name`` has: that without tiles."""
    return name.removesuffix(tiles.SUFFIX)


def in_tiles(name: str, shape: Sequence[int]) -> str | None:
    """The format in tiles (:mod:`unladen.quants.tiles`) for a tensor of ``shape`` in format
    ``name``; None where it can't be cut into tiles."""
    return name + tiles.SUFFIX if tiles.fits(get(name), shape) else None


@functools.cache
def _tiled(name: str) -> type[Quant] | None:
    return tiles.tiled(registry()[name])


def get(name: str) -> type[Quant]:
    """The format called ``name`` ("Q4_K", or "Q4_K/tiles"); raises :class:`UnsupportedQuant`."""
    try:
        plain = registry()[file_format(name)]
        if plain.name == name:
            return plain
        tiled = _tiled(plain.name)
        if tiled is not None:
            return tiled
        raise KeyError
    except KeyError:
        raise UnsupportedQuant(f"no block format is called {name!r}",
                               hint="known: " + ", ".join(sorted(registry()))) from None


def by_id(type_id: int) -> type[Quant] | None:
    """The format with GGUF's number ``type_id``, or None."""
    return found().entries.get(int(type_id))


def dequantize(name: str, raw: npt.NDArray[np.uint8], shape: tuple[int, ...]
               ) -> npt.NDArray[np.float32]:
    """Decode the bytes of a whole tensor to float32 of ``shape`` (slowest dimension first).

    Raises :class:`UnsupportedQuant` for an unknown ``name`` and :class:`InvalidArgument` when the
    length of ``raw`` doesn't match ``shape``. A NaN or infinite scale in the file is kept.
    """
    quant = get(name)
    data = np.ascontiguousarray(raw).view(np.uint8)
    n = math.prod(shape)
    if n % quant.block_size or data.size != quant.row_bytes(n):
        raise InvalidArgument(f"{data.size} bytes are no {name} tensor of shape {shape}",
                              hint=f"{name} has {quant.block_bytes} bytes for every "
                                   f"{quant.block_size} weights")
    if n == 0:
        return np.empty(shape, np.float32)
    if file_format(name) != name:
        data = tiles.unpack(get(file_format(name)), data, shape)
    with np.errstate(over="ignore", invalid="ignore"):
        return quant.dequantize(data.reshape(-1, quant.block_bytes)).reshape(shape)


def convert(source: str, target: str, raw: npt.NDArray[np.uint8], shape: tuple[int, ...]
            ) -> npt.NDArray[np.uint8]:
    """The bytes of a whole tensor of ``shape`` in format ``target``; ``raw``: those in format
    ``source``. Tiles are made of blocks, and blocks of tiles, without a loss. Raises the errors of
    :func:`dequantize` and :func:`quantize`."""
    if source == target:
        return raw
    kind = get(file_format(source))
    if file_format(source) != file_format(target):
        made = quantize(file_format(target), dequantize(source, raw, shape)).reshape(-1)
        return convert(file_format(target), target, made, shape)
    blocks = raw if source == kind.name else tiles.unpack(kind, raw, shape)
    return blocks if target == kind.name else tiles.pack(kind, blocks, shape)


def packer_of(source: str, target: str, shape: Sequence[int]) -> tiles.Packer | None:
    """What makes the bytes of a tensor of ``shape`` in format ``target`` of those in ``source``,
    piece by piece: that of tiles of the same blocks. None: only :func:`convert` does it."""
    if source == target or file_format(target) != source:
        return None
    return tiles.Packer.of(get(source), shape)


def quantize(name: str, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Encode float32 [..., n] row by row; returns uint8 [..., row_bytes].

    Raises :class:`UnsupportedQuant` when ``name`` is unknown, can't be written, is cut into tiles,
    or its block size doesn't divide ``n``, and :class:`InvalidArgument` for numbers that the format
    can't hold.
    """
    quant = get(name)
    if file_format(name) != name:
        raise UnsupportedQuant(f"{name} has no rows of blocks",
                               hint=f"write {file_format(name)}, and convert it")
    if values.shape[-1] % quant.block_size:
        raise UnsupportedQuant(
            f"rows of {values.shape[-1]} aren't a whole number of {name} blocks of "
            f"{quant.block_size}", hint="choose a type with a smaller block")
    shape = (*values.shape[:-1], quant.row_bytes(values.shape[-1]))
    if values.size == 0:
        return np.empty(shape, np.uint8)
    rows = np.ascontiguousarray(values, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return quant.quantize(rows.reshape(-1, quant.block_size)).reshape(shape)
