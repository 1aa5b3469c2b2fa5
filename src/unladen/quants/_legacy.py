"""Encoding that Q4_0, Q4_1, Q5_0 and Q5_1 share: 32 weights become integers of 4 or 5 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unladen.quants._bits import pack, planes, reciprocal, store_half
from unladen.quants.base import Blocks, Floats

Codes = npt.NDArray[np.uint8]


def encode_signed(values: Floats, zero: int) -> tuple[Blocks, Codes]:
    """Encode float32 [n, 32] as ``d * (q - zero)``: bytes of ``d``, and ``q`` uint8 [n, 32].

    The number of largest magnitude becomes ``q = 0`` with its sign in ``d``; the others round to
    nearest (ties up) and stop at ``2 * zero - 1``. Raises like
    :func:`unladen.quants._bits.store_half`.
    """
    peak = np.take_along_axis(values, np.abs(values).argmax(axis=1, keepdims=True), axis=1)
    d = peak / np.float32(-zero)
    d_bytes = store_half(d)
    target = values * reciprocal(d) + np.float32(zero + 0.5)
    return d_bytes, target.astype(np.uint8).clip(0, 2 * zero - 1)


def encode_offset(values: Floats, top: int) -> tuple[Blocks, Codes]:
    """Encode float32 [n, 32] as ``d * q + m``: bytes of ``d`` and ``m``, and ``q`` uint8 [n, 32].

    ``m`` is the smallest number, ``q = top`` the largest; ties round up. Raises like
    :func:`unladen.quants._bits.store_half`.
    """
    m = values.min(axis=1, keepdims=True)
    d = (values.max(axis=1, keepdims=True) - m) / np.float32(top)
    halves = np.concatenate([store_half(d), store_half(m)], axis=1)
    target = (values - m) * reciprocal(d) + np.float32(0.5)
    return halves, target.astype(np.uint8).clip(0, top)


def unpack5(raw: Blocks) -> Codes:
    """Unpack uint8 [n, 20] to numbers of 5 bits, uint8 [n, 32]: 4 bytes hold their top bits, 16
    bytes their low nibbles."""
    high = planes(raw[:, :4], 1, 1).reshape(-1, 32)
    return planes(raw[:, 4:], 16, 4).reshape(-1, 32) | (high << np.uint8(4))


def pack5(q: Codes) -> Blocks:
    """The inverse of :func:`unpack5`: uint8 [n, 32] to [n, 20]."""
    return np.concatenate([pack(q >> np.uint8(4), 1, 1), pack(q & np.uint8(15), 16, 4)], axis=1)
