"""The paged cache of the reference backend. Rows are encoded and decoded one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends._host import host
from unladen.backends.base import PlacedKV
from unladen.graph.batch import Batch
from unladen.graph.graph import KVSpec
from unladen.graph.ops.base import Array
from unladen.quants import dequantize, get, quantize

NAN16 = np.array([np.nan], np.float16).view(np.uint8)
"""NaN as bytes, for a float16 and for the scale at the begin of a Q8_0 block."""
NAN32 = np.array([np.nan], np.float32).view(np.uint8)
"""NaN as bytes, for a float32."""


@dataclass(frozen=True, slots=True)
class PagedKV:
    """One layer's cache, laid out as :class:`~unladen.backends.base.KVLayout` says."""

    placed: PlacedKV

    @property
    def spec(self) -> KVSpec:
        """The layer's geometry."""
        return self.placed.spec

    def store(self, batch: Batch, k: Array, v: Array) -> None:
        """See :class:`~unladen.graph.ops.base.KVState`."""
        layout = self.placed.layout
        keys, is_beyond = _encoded(layout.k_type, k.astype(np.float32))
        values, _ = _encoded(layout.v_type, v.astype(np.float32))
        # A NaN score may lead to a finite weight, but a NaN value makes every sum NaN.
        nan = NAN32 if layout.v_type == "F32" else NAN16
        values[is_beyond, :len(nan)] = nan[:values.shape[-1]]
        for raw, pages in ((keys, self._pages("k")), (values, self._pages("v"))):
            for t in range(batch.n_tokens):
                block, slot = self._where(batch, int(batch.seq_of[t]), int(batch.index[t]))
                pages[block, :, slot] = raw[t]

    def load(self, batch: Batch, seq: int) -> tuple[Array, Array]:
        """See :class:`~unladen.graph.ops.base.KVState`."""
        n, layout = int(batch.kv_len[seq]), self.placed.layout
        where = [self._where(batch, seq, index) for index in range(n)]
        return (self._gather(where, "k", layout.k_type, self.spec.k_dim),
                self._gather(where, "v", layout.v_type, self.spec.v_dim))

    def _gather(self, where: list[tuple[int, int]], which: str, quant: str, dim: int) -> Array:
        pages = self._pages(which)
        raw = np.stack([pages[block, :, slot] for block, slot in where])
        return dequantize(quant, raw, (len(where), self.spec.n_kv_heads, dim)).astype(np.float64)

    def _where(self, batch: Batch, seq: int, index: int) -> tuple[int, int]:
        layout = self.placed.layout
        block, slot = divmod(index, layout.block_tokens)
        return int(batch.block_table[seq, layout.first_column + block]), slot

    def _pages(self, which: str) -> npt.NDArray[np.uint8]:
        """The buffer of K or V, uint8 [n_blocks, n_kv_heads, block_tokens, row_bytes]."""
        layout, spec = self.placed.layout, self.spec
        is_k = which == "k"
        buffer = self.placed.k if is_k else self.placed.v
        row = get(layout.k_type if is_k else layout.v_type).row_bytes(
            spec.k_dim if is_k else spec.v_dim)
        return host(buffer).data.reshape(layout.n_blocks, spec.n_kv_heads, layout.block_tokens, row)


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
