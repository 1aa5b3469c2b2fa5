"""The paged cache of the reference backend. Rows are encoded and decoded one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends._host import host
from unladen.backends._kv_rows import encoded
from unladen.backends.base import PlacedKV
from unladen.graph.batch import Batch
from unladen.graph.graph import KVSpec
from unladen.graph.ops.base import Array
from unladen.quants import dequantize, get


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
        keys, values = encoded(layout, k.astype(np.float32), v.astype(np.float32))
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
