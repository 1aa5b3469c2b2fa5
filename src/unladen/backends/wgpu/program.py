"""A compiled segment: what a step uploads, and the dispatches that it submits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends.wgpu.encode import Copy, Encoded, submit
from unladen.backends.wgpu.gpu import Gpu, Pipeline, Range
from unladen.errors import Cancelled
from unladen.graph.batch import Batch
from unladen.types import Limits

HEADER_WORDS = 15
TOKENS_WORD = 3
"""Of the header: where the tokens are."""
TILE_TOKENS = 8
"""Tokens of one sequence whose attention a workgroup computes together, in a prefill."""
KEYS_PER_SPLIT = 64
MAX_SPLITS = 64
ENOUGH_WORKGROUPS = 1024
"""So many fill a GPU: attention over that many sequences and heads shares no keys."""
DISPATCHES_AT_ONCE = 24
"""Of a prefill; between submissions it can be cancelled."""


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


Groups = tuple[int, int, int]
Grid = Callable[[Size], Groups | None]
"""How many workgroups a step of some size takes; None: it doesn't need this dispatch."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A kernel with everything that it binds."""

    pipeline: Pipeline
    bindings: Any
    grid: Grid


@dataclass(frozen=True, slots=True)
class RopeTable:
    """Angles per position [n_freqs] float64, the factor of their cosines and sines, and what is
    taken from positions."""

    freqs: npt.NDArray[np.float64]
    magnitude: float
    back: int = 0

    def at(self, positions: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """(cos, sin) for each position and frequency: float32 [T, 2 n_freqs]."""
        angle = (positions[:, None] - self.back) * self.freqs
        table = np.empty((len(positions), len(self.freqs), 2), np.float32)
        table[..., 0] = np.cos(angle) * self.magnitude
        table[..., 1] = np.sin(angle) * self.magnitude
        return table.reshape(-1)


@dataclass(slots=True)
class WgpuProgram:
    """See the module."""

    gpu: Gpu
    batch: Batch
    limits: Limits
    dispatches: Sequence[Dispatch] = ()
    tables: list[RopeTable] = field(default_factory=list)
    chosen: Range | None = None
    n_kv_heads: int = 1
    cancelled: bool = False
    encoded: dict[Size, list[list[Encoded]]] = field(default_factory=dict)
    words: npt.NDArray[np.int32] = field(init=False)
    step: Range = field(init=False)
    step_bindings: Any = None

    def __post_init__(self) -> None:
        self.words = np.zeros(0, np.int32)

    def finish(self, dispatches: Sequence[Dispatch]) -> None:
        """Give it its dispatches, and room for the largest step."""
        self.dispatches = dispatches
        b, n = self.batch, self.limits.n_tokens
        arrays = (b.tokens, b.positions, b.seq_of, b.q_start, b.kv_len, b.out_rows, b.block_table,
                  b.state_in, b.state_out)
        n_words = (HEADER_WORDS + len(self.tables) + sum(a.size for a in arrays) + 3 * n
                   + sum(2 * len(t.freqs) * n for t in self.tables))
        self.words = np.zeros(n_words, np.int32)
        self.step = Range(self.gpu.buffer(4 * n_words), 0, 4 * n_words)
        self.step_bindings = self.gpu.bind_step(self.step)

    def run(self) -> None:
        """Upload and submit the step in the batch; raises :class:`Cancelled`."""
        self.cancelled = False
        size = self._upload()
        parts = self.encoded.get(size)
        if parts is None:
            if len(self.encoded) > 64:
                self.encoded.clear()
            parts = self.encoded[size] = self._encode(size)
        before: int | None = None
        tokens = self._tokens() if self.batch.continues else None
        for part in parts:
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            submission = submit(self.gpu, self.step_bindings, part, tokens)
            if before is not None:
                # Two are under way: enough to keep the device busy, few to wait for after a cancel.
                self.gpu.wait_for(before)
            before, tokens = submission, None

    def _tokens(self) -> Copy:
        """From where ``argmax`` left them to where ``embed`` looks for them."""
        assert self.chosen is not None
        start = 4 * int(self.words[TOKENS_WORD])
        return Copy(self.chosen, Range(self.step.buffer, start, 4 * self.batch.n_tokens))

    def _encode(self, size: Size) -> list[list[Encoded]]:
        flat: list[Encoded] = []
        for d in self.dispatches:
            groups = d.grid(size)
            if groups is not None:
                flat.append((d.pipeline.handle, d.bindings._internal, *groups))
        if size.is_decode or not flat:
            return [flat] if flat else []
        return [flat[i:i + DISPATCHES_AT_ONCE] for i in range(0, len(flat), DISPATCHES_AT_ONCE)]

    def _upload(self) -> Size:
        """Pack the batch (see kernels/parts/step.wgsl) and upload it."""
        b, words = self.batch, self.words
        tiles, size = self._tiles()
        n, n_seqs = b.n_tokens, b.n_seqs
        at = HEADER_WORDS + len(self.tables)
        words[0], words[1], words[2] = n, b.n_outputs, n_seqs
        words[10], words[12] = b.block_table.shape[1], size.n_splits
        places = []
        arrays = (b.tokens[:n], b.positions[:n], b.seq_of[:n], b.q_start[:n_seqs + 1],
                  b.kv_len[:n_seqs], b.out_rows[:b.n_outputs], b.block_table[:n_seqs].reshape(-1),
                  tiles, b.state_in[:n_seqs], b.state_out[:n_seqs],
                  *(t.at(b.positions[:n]).view(np.int32) for t in self.tables))
        for array in arrays:
            words[at:at + array.size] = array
            places.append(at)
            at += array.size
        words[3:10] = places[:7]
        words[11] = places[7]
        words[13:15] = places[8:10]
        words[HEADER_WORDS:HEADER_WORDS + len(self.tables)] = places[10:]
        self.gpu.write(self.step.buffer, 0, words[:at].view(np.uint8))
        return size

    def _tiles(self) -> tuple[npt.NDArray[np.int32], Size]:
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
