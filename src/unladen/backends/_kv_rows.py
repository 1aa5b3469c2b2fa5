"""Rows of a cache in the format that a layout names, encoded by the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unladen.backends.base import KVLayout
from unladen.quants import get, quantize

F32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

NAN16 = np.array([np.nan], np.float16).view(np.uint8)
"""NaN as bytes, for a float16 and for the scale at the begin of a Q8_0 block."""
NAN32 = np.array([np.nan], np.float32).view(np.uint8)
"""NaN as bytes, for a float32."""


def encoded(layout: KVLayout, k: F32, v: F32) -> tuple[Bytes, Bytes]:
    """Bytes of the keys and values [n_tokens, n_kv_heads, row_bytes] of k [n_tokens, n_kv_heads,
    k_dim] and v [n_tokens, n_kv_heads, v_dim]."""
    keys, is_beyond = _encoded(layout.k_type, k)
    values, _ = _encoded(layout.v_type, v)
    # A NaN score may lead to a finite weight, but a NaN value makes every sum NaN.
    nan = NAN32 if layout.v_type == "F32" else NAN16
    values[is_beyond, :len(nan)] = nan[:values.shape[-1]]
    return keys, values


def _encoded(quant: str, rows: npt.NDArray[np.float32]
             ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """``rows`` float32 [n_tokens, n_heads, dim] in format ``quant``, with NaN in place of numbers
    that the format can't hold; and bool [n_tokens, n_heads]: the rows with such numbers. An
    infinite key could get the weight zero and go unnoticed, while NaN reaches the logits and raises
    an error."""
    size = get(quant).block_size
    blocks = rows.reshape(-1, size)
    with np.errstate(over="ignore"):
        scales = np.abs(blocks).max(axis=1) / np.float32(1 if size == 1 else 127)
        is_beyond = ~np.isfinite(scales.astype(np.float16)) & (quant != "F32")
    raw = quantize(quant, np.where(is_beyond[:, None], np.float32(0), blocks))
    raw[is_beyond, :2] = NAN16
    return (raw.reshape(*rows.shape[:-1], -1),
            is_beyond.reshape(*rows.shape[:-1], -1).any(axis=-1))
