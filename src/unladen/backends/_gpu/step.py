"""What changes from step to step, as the one array of words that every kernel reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends._gpu.step_header import words_of
from unladen.graph.batch import Batch, arrays_of
from unladen.types import Limits

TILE_TOKENS = 8
"""Tokens of one sequence whose attention a workgroup computes together, in a prefill."""
KEYS_PER_SPLIT = 64
"""Keys that a workgroup's share must have for sharing them to pay."""
MAX_SPLITS = 64
"""Workgroups that share the keys of a query at most."""
ENOUGH_WORKGROUPS = 1024
"""Workgroups that fill a GPU: attention over that many sequences and heads shares no keys."""

Words = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Size:
    """What the number of workgroups depends on. ``n_tiles`` of attention; in a decode step (one
    token of each sequence) ``n_splits`` workgroups share the keys of a query. Ops in ``skip`` are
    left out."""

    n_tokens: int
    n_outputs: int
    n_tiles: int
    n_splits: int
    is_decode: bool
    skip: frozenset[str]

    def rows(self, symbol: str) -> int:
        """The present value of ``T`` or ``S``."""
        return self.n_tokens if symbol == "T" else self.n_outputs


@dataclass(frozen=True, slots=True)
class RopeTable:
    """Angles per position [n_freqs] float64, the factor of their cosines and sines, what is taken
    from positions, and the axis of each frequency where positions have several."""

    freqs: npt.NDArray[np.float64]
    magnitude: float
    back: int = 0
    axes: Sequence[int] = ()

    def at(self, positions: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """(cos, sin) for each position and frequency: float32 [T, 2 n_freqs]."""
        each = positions[:, list(self.axes)] if self.axes else positions[:, None]
        angle = (each - self.back) * self.freqs
        table = np.empty((len(positions), len(self.freqs), 2), np.float32)
        table[..., 0] = np.cos(angle) * self.magnitude
        table[..., 1] = np.sin(angle) * self.magnitude
        return table.reshape(-1)


class Step:
    """Packs the batch into words: numbers of the step, places of arrays, then the arrays."""

    def __init__(self, batch: Batch, limits: Limits, tables: Sequence[RopeTable], n_kv_heads: int
                 ) -> None:
        self.batch = batch
        self.tables = tables
        self.n_kv_heads = n_kv_heads
        self.header = words_of(type(batch))
        arrays = arrays_of(type(batch))
        n, n_header_words = limits.n_tokens, self.header["rope_tables"] + len(tables)
        n_words = (n_header_words + sum(a.whole(batch).size for a in arrays) + 3 * n
                   + sum(2 * len(t.freqs) * n for t in tables))
        self.words: Words = np.zeros(n_words, np.int32)
        self._first = n_header_words
        # Arrays stay where they are as long as the batch: word, words, number of rows, columns. An
        # empty one is read by no kernel of the plan.
        self._arrays = [(self.header[a.name], a.whole(batch).reshape(-1).view(np.int32), a.rows,
                         a.more, a.n_cols(batch)) for a in arrays if a.whole(batch).size]
        for array in arrays:
            if array.cols:
                self.words[self.header[f"{array.name}_cols"]] = array.n_cols(batch)

    def pack(self) -> tuple[Words, Size]:
        """The words of the step that is in the batch, and how large the step is."""
        b, words, header = self.batch, self.words, self.header
        tiles, size = self._tiles()
        words[header["n_tokens"]], words[header["n_outputs"]] = b.n_tokens, b.n_outputs
        words[header["n_seqs"]], words[header["n_splits"]] = b.n_seqs, size.n_splits
        at = self._first
        for word, array, rows, more, n_cols in self._arrays:
            n = (getattr(b, rows) + more) * n_cols
            words[word], words[at:at + n] = at, array[:n]
            at += n
        positions = b.positions[:b.n_tokens]
        tables = [tiles, *(table.at(positions).view(np.int32) for table in self.tables)]
        for word, array in zip((header["tiles"], *range(header["rope_tables"], self._first)),
                               tables, strict=True):
            words[word], words[at:at + array.size] = at, array
            at += array.size
        return words[:at], size

    @property
    def tokens_offset(self) -> int:
        """Bytes into the words that were packed last: where the tokens are."""
        return 4 * int(self.words[self.header["tokens"]])

    def _tiles(self) -> tuple[Words, Size]:
        """Tiles of attention as int32 [3 n_tiles]: first token, number of tokens, sequence."""
        b = self.batch
        if b.n_tokens == b.n_seqs:
            single = np.ones((b.n_seqs, 3), np.int32)
            single[:, 0] = single[:, 2] = np.arange(b.n_seqs)
            return single.reshape(-1), Size(b.n_tokens, b.n_outputs, b.n_seqs, self._splits(), True,
                                            b.skip)
        found = []
        for seq in range(b.n_seqs):
            first, end = int(b.q_start[seq]), int(b.q_start[seq + 1])
            found += [(t, min(TILE_TOKENS, end - t), seq) for t in range(first, end, TILE_TOKENS)]
        tiles = np.array(found, np.int32).reshape(-1)
        return tiles, Size(b.n_tokens, b.n_outputs, len(found), 1, False, b.skip)

    def _splits(self) -> int:
        b = self.batch
        longest = int(b.kv_len[:b.n_seqs].max(initial=1))
        useful = max(1, ENOUGH_WORKGROUPS // (b.n_seqs * self.n_kv_heads))
        return min(MAX_SPLITS, -(-longest // KEYS_PER_SPLIT), useful)
