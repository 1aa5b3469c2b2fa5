"""The operations on bytes and bits that all block formats are decoded and encoded with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.quants.base import Blocks, Floats


def half(blocks: Blocks, at: int) -> Floats:
    """The float16 at byte ``at`` of every block, as float32 [n_blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at:at + 2]).view("<f2").astype(np.float32)


def words16(raw: Blocks) -> npt.NDArray[np.uint16]:
    """The little-endian words of uint8 [n, 2 k], as uint16 [n, k]."""
    return np.ascontiguousarray(raw).view("<u2").astype(np.uint16, copy=False)


def words32(raw: Blocks) -> npt.NDArray[np.uint32]:
    """The little-endian words of uint8 [n, 4 k], as uint32 [n, k]."""
    return np.ascontiguousarray(raw).view("<u4").astype(np.uint32, copy=False)


def planes(raw: Blocks, group: int, bits: int) -> npt.NDArray[np.uint8]:
    """Unpack ``bits``-bit fields of uint8 [n, k] to uint8 [n, k / group * (8 / bits), group].

    Each run of ``group`` bytes yields first the lowest fields of all its bytes, then the next
    fields, and so on. ``group=1`` reads the fields in the order of their bits.
    """
    n, k = raw.shape
    out = np.empty((n, k // group, 8 // bits, group), np.uint8)
    source = raw.reshape(n, k // group, group)
    for i in range(8 // bits):
        np.right_shift(source, i * bits, out=out[:, :, i])
    out &= (1 << bits) - 1
    return out.reshape(n, -1, group)


def scaled(scales: Floats, q: npt.NDArray[np.integer]) -> Floats:
    """Multiply each run of ``q`` [n, ...] by its scale in float32 [n, n_runs]; returns float32
    [n, n_weights].

    ``q`` may have any shape that holds n * n_weights numbers of at most 16 bits.
    """
    n, n_runs = scales.shape
    weights: Floats = scales[..., None] * q.reshape(n, n_runs, -1)
    return weights.reshape(n, -1)


def pack(values: npt.NDArray[np.uint8], group: int, bits: int) -> Blocks:
    """The inverse of :func:`planes`: uint8 [n, m] of small numbers to uint8 [n, m * bits / 8]."""
    n = len(values)
    fields = values.reshape(n, -1, 8 // bits, group)
    out = np.zeros((n, fields.shape[1], group), np.uint8)
    for i in range(8 // bits):
        out |= fields[:, :, i] << np.uint8(i * bits)
    return out.reshape(n, -1)


def store_half(values: Floats) -> Blocks:
    """Float32 [n_blocks, 1] as the two bytes of a float16, uint8 [n_blocks, 2].

    Raises :class:`InvalidArgument` for a scale that float16 can't hold: an infinite or NaN scale
    would spoil its whole block.
    """
    halves = values.astype("<f2")
    if not np.isfinite(halves).all():
        raise InvalidArgument("a block's scale is NaN, infinite or beyond float16 (65504)",
                              hint="look for NaN or infinity in the weights; write them as BF16")
    return halves.view(np.uint8)


def reciprocal(scale: Floats) -> Floats:
    """1 / ``scale``, and 0 where the quotient isn't a finite float32: the block then becomes zeros.
    """
    with np.errstate(divide="ignore", over="ignore"):
        inverse: Floats = np.float32(1) / scale
    inverse[~np.isfinite(inverse)] = 0
    return inverse
