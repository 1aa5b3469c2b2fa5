"""The step's words: the batch in one array of 32-bit words, which every kernel reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from unladen.backends._gpu.step_header import words_of
from unladen.graph.batch import Batch, arrays_of
from unladen.types import Limits

TILE_TOKENS = 8
"""How many tokens of one sequence a workgroup of attention computes together, in a prefill. Where
it has too little memory for so many long rows, there are fewer."""
KEYS_PER_SPLIT = 64
"""The keys of a workgroup's share, where there are enough shares for all; with fewer, sharing keys
would not pay."""
FEWEST_KEYS = 32
"""The keys of a share where a workgroup is a single warp."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""How many workgroups share the keys of a query. They are few numbers, so that few sizes of decode
steps have to be recorded."""
MAX_SPLITS = SPLITS[-1]
"""The most workgroups that share the keys of a query."""
KEPT_POSITIONS = 64
"""How many positions, one after the other, have their rows of a table computed together for decode
steps."""
MOST_KEPT = 64
"""How many such blocks of rows are kept for each table."""
MOST_ROWS_KEPT = 16
"""The most tokens of a step for which blocks of rows are kept."""
ENOUGH_WORKGROUPS = 1024
"""How many workgroups fill a GPU. Attention with as many sequences and heads shares no keys."""

Words = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a step, on which the numbers of workgroups depend.

    * ``n_tiles``: tiles of attention.
    * ``n_splits``: workgroups that share the keys of a query, in a decode step (one token of each
      sequence).
    * ``skip``: ops that the step leaves out.
    """

    n_tokens: int
    n_outputs: int
    n_tiles: int
    n_splits: int
    is_decode: bool
    skip: frozenset[str]

    def rows(self, symbol: str) -> int:
        """The value of ``T`` or ``S`` in this step."""
        return self.n_tokens if symbol == "T" else self.n_outputs


@dataclass(frozen=True, slots=True)
class RopeTable:
    """A table of RoPE that every step uploads; the fields are attributes of the op ``rope_table``:
    angles per position float64 [n_freqs], the factor of cosines and sines, the number subtracted
    from positions, and the axis of each frequency where positions have several."""

    freqs: npt.NDArray[np.float64]
    magnitude: float
    back: int = 0
    axes: Sequence[int] = ()

    def write(self, positions: npt.NDArray[np.int32], out: npt.NDArray[np.float32]) -> None:
        """Write (cos, sin) for each position and frequency to ``out``, float32
        [T, n_freqs, 2]."""
        each = positions[:, list(self.axes)] if self.axes else positions[:, None]
        angle = (each - self.back if self.back else each) * self.freqs
        cos, sin = np.cos(angle), np.sin(angle)
        if self.magnitude != 1:
            cos, sin = cos * self.magnitude, sin * self.magnitude
        out[..., 0], out[..., 1] = cos, sin


class KeptRows:
    """The rows of ``table`` at positions that decode steps use: such a step copies its rows instead
    of computing them."""

    def __init__(self, table: RopeTable) -> None:
        self.table = table
        self._blocks: dict[int, npt.NDArray[np.float32]] = {}

    def write(self, positions: npt.NDArray[np.int32], out: npt.NDArray[np.float32]) -> None:
        """As :meth:`RopeTable.write`."""
        if self.table.axes or len(positions) > MOST_ROWS_KEPT:
            self.table.write(positions, out)
            return
        for i, position in enumerate(positions.tolist()):
            number, row = divmod(position, KEPT_POSITIONS)
            block = self._blocks.get(number)
            out[i] = (self._computed(number) if block is None else block)[row]

    def _computed(self, number: int) -> npt.NDArray[np.float32]:
        """The block with this number, which is kept from now on."""
        if len(self._blocks) == MOST_KEPT:
            del self._blocks[next(iter(self._blocks))]
        first = number * KEPT_POSITIONS
        block = np.empty((KEPT_POSITIONS, len(self.table.freqs), 2), np.float32)
        self.table.write(np.arange(first, first + KEPT_POSITIONS, dtype=np.int32), block)
        self._blocks[number] = block
        return block


@dataclass(slots=True)
class _Places:
    """Where steps with the same counts of rows have their arrays in the words.

    * ``counts``: the counts of rows.
    * ``words``: the words of the step.
    * ``copies``: parts of the words, each with the part of a batch's array that belongs there.
    * ``tables``: for each table its part of the words, float32 [T, n_freqs, 2].
    * ``sizes``: the sizes of decode steps, by ``n_splits`` and ``skip``.
    """

    counts: tuple[int, ...]
    words: Words
    copies: Sequence[tuple[Words, Words]]
    tables: Sequence[npt.NDArray[np.float32]]
    sizes: dict[tuple[int, frozenset[str]], Size] = field(default_factory=dict)


class Step:
    """Writes the batch as words: numbers of the step, the places of arrays, then the arrays."""

    def __init__(self, batch: Batch, limits: Limits, tables: Sequence[RopeTable], n_kv_heads: int,
                 tile_tokens: int = TILE_TOKENS, split_keys: int = KEYS_PER_SPLIT) -> None:
        self.batch = batch
        self.split_keys = split_keys
        self.tile_tokens = tile_tokens
        self.tables = [KeptRows(table) for table in tables]
        self.n_kv_heads = n_kv_heads
        self.header = words_of(type(batch))
        arrays = arrays_of(type(batch))
        n, n_header_words = limits.n_tokens, self.header["rope_tables"] + len(tables)
        n_words = (n_header_words + sum(a.whole(batch).size for a in arrays) + 3 * n
                   + sum(2 * len(t.freqs) * n for t in tables))
        self.words: Words = np.zeros(n_words, np.int32)
        self._first = n_header_words
        single = np.ones((limits.n_seqs, 3), np.int32)
        single[:, 0] = single[:, 2] = np.arange(limits.n_seqs)
        self._single = single.reshape(-1)
        # For each array: its word in the header, its numbers, the name of its count of rows, rows
        # in addition to that, columns. Arrays stay where they are as long as the batch exists. No
        # kernel of the plan reads an empty array.
        self._arrays = [(self.header[a.name], a.whole(batch).reshape(-1).view(np.int32), a.rows,
                         a.more, a.n_cols(batch)) for a in arrays if a.whole(batch).size]
        names = dict.fromkeys(("n_tokens", "n_outputs", "n_seqs", *(a.rows for a in arrays)))
        self._counts: Callable[[Batch], tuple[int, ...]] = attrgetter(*names)
        self._places: _Places | None = None
        for array in arrays:
            if array.cols:
                self.words[self.header[f"{array.name}_cols"]] = array.n_cols(batch)

    def pack(self) -> tuple[Words, Size]:
        """The words of the step in the batch, and the step's size."""
        b, places = self.batch, self._places
        if b.n_tokens != b.n_seqs:
            tiles, size = self._tiles()
            places = self._placed(tiles)
        else:
            # From one decode step to the next, most often only numbers in the arrays change.
            if places is None or places.counts != self._counts(b):
                places = self._placed(self._single[:3 * b.n_seqs])
                self._places = places
            size = self._decode_size(places.sizes)
        self.words[self.header["n_splits"]] = size.n_splits
        for part, array in places.copies:
            part[...] = array
        positions = b.positions[:b.n_tokens]
        for table, out in zip(self.tables, places.tables, strict=True):
            table.write(positions, out)
        return places.words, size

    def _placed(self, tiles: Words) -> _Places:
        """Places for the counts of rows in the batch. Writes them and the tiles."""
        b, words, header = self.batch, self.words, self.header
        self._places = None  # their words in the header are overwritten
        words[header["n_tokens"]], words[header["n_outputs"]] = b.n_tokens, b.n_outputs
        words[header["n_seqs"]] = b.n_seqs
        at, copies, tables = self._first, [], []
        for word, array, rows, more, n_cols in self._arrays:
            n = (getattr(b, rows) + more) * n_cols
            words[word] = at
            copies.append((words[at:at + n], array[:n]))
            at += n
        words[header["tiles"]], words[at:at + tiles.size] = at, tiles
        at += tiles.size
        for word, kept in enumerate(self.tables, header["rope_tables"]):
            n = 2 * len(kept.table.freqs) * b.n_tokens
            words[word] = at
            tables.append(words[at:at + n].view(np.float32).reshape(b.n_tokens, -1, 2))
            at += n
        return _Places(self._counts(b), words[:at], copies, tables)

    @property
    def tokens_offset(self) -> int:
        """The offset, in bytes, of the tokens in the words that were packed last."""
        return 4 * int(self.words[self.header["tokens"]])

    def _tiles(self) -> tuple[Words, Size]:
        """The tiles of attention in a prefill, int32 [3 n_tiles]: first token, number of tokens and
        sequence of each; and the step's size."""
        b, found = self.batch, []
        for seq in range(b.n_seqs):
            first, end = int(b.q_start[seq]), int(b.q_start[seq + 1])
            found += [(t, min(self.tile_tokens, end - t), seq)
                      for t in range(first, end, self.tile_tokens)]
        tiles = np.array(found, np.int32).reshape(-1)
        return tiles, Size(b.n_tokens, b.n_outputs, len(found), 1, False, b.skip)

    def _decode_size(self, known: dict[tuple[int, frozenset[str]], Size]) -> Size:
        """The size of a decode step; ``known`` has those of steps with the same counts of rows."""
        b, n_splits = self.batch, self._splits()
        size = known.get((n_splits, b.skip))
        if size is None:
            size = Size(b.n_tokens, b.n_outputs, b.n_seqs, n_splits, True, b.skip)
            known[n_splits, b.skip] = size
        return size

    def _splits(self) -> int:
        b = self.batch
        longest = int(b.kv_len[0] if b.n_seqs == 1 else b.kv_len[:b.n_seqs].max(initial=1))
        useful = max(1, ENOUGH_WORKGROUPS // (b.n_seqs * self.n_kv_heads))
        wanted = -(-longest // self.split_keys)
        return SPLITS[min(bisect_left(SPLITS, wanted), bisect_right(SPLITS, useful) - 1)]
