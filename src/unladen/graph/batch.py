"""What changes from step to step: one small set of int32 arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.types import Limits

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BatchArray:
    """An array of a batch. ``rows`` names the number of its rows, in :class:`Batch` those of this
    step and in :class:`~unladen.types.Limits` the most; it has ``more`` rows than that. ``cols``:
    the limit that is the length of a row; "": it has one dimension. Its numbers are of ``dtype``,
    32 bits each, and ``fill`` until something is placed."""

    name: str
    rows: str
    more: int = 0
    cols: str = ""
    dtype: type[np.int32 | np.float32] = np.int32
    fill: int = 0

    def empty(self, limits: Limits) -> npt.NDArray[Any]:
        """The array for the largest step of ``limits``."""
        rows = getattr(limits, self.rows) + self.more
        shape = (rows, getattr(limits, self.cols)) if self.cols else (rows,)
        return np.full(shape, self.fill, self.dtype)

    def whole(self, batch: Batch) -> npt.NDArray[Any]:
        """The array itself."""
        found: npt.NDArray[Any] = getattr(batch, self.name)
        return found

    def n_cols(self, batch: Batch) -> int:
        """The length of a row."""
        return int(self.whole(batch).shape[1]) if self.cols else 1


def array_of(rows: str, more: int = 0, cols: str = "",
             dtype: type[np.int32 | np.float32] = np.int32, fill: int = 0) -> Mapping[str, object]:
    """Metadata of a field of :class:`Batch` that is an array; see :class:`BatchArray`."""
    return {"rows": rows, "more": more, "cols": cols, "dtype": dtype, "fill": fill}


class SizeClass(NamedTuple):
    """Steps of about one size, for which a driver may record its commands once: all that differs
    among them is in the batch's arrays and numbers, which lie at the same addresses in every step.

    * ``n_tokens``: the most tokens of a step in the class, a power of two or the plan's largest
      step. There is room for as many rows in every array and value.
    * ``is_decode``: the step has one token of each of its sequences.
    """

    n_tokens: int
    is_decode: bool


@dataclass(slots=True)
class Batch:
    """The metadata of a step, in arrays of the plan's largest size that are reused for every step.

    Tokens of one sequence stand together: sequence ``s`` of the step owns the rows
    ``q_start[s] .. q_start[s+1]``. A token's position is its index in its sequence, and its row of
    the cache. ``kv_len[s]`` counts the sequence's tokens with those of this step. Row ``s`` of
    ``block_table`` names its cache blocks. ``out_rows[:n_outputs]`` are the rows whose logits are
    wanted, ascending. Recurrent nodes go on from the state in slot ``state_in[s]``, or from zeros
    where that is :data:`~unladen.types.NO_SLOT`, and leave theirs in ``state_out[s]``, another
    slot: a step never changes what it began with.

    Ops in ``skip`` make nothing that is read after this step, nor does the output "logits" hold
    anything that is read where it is among them, so a backend may leave them out.
    ``continues``: the tokens are what ``argmax`` chose in the step before, row by row, and
    :attr:`tokens` says nothing; only for backends that run ahead.
    """

    tokens: I32 = field(metadata=array_of("n_tokens"))
    positions: I32 = field(metadata=array_of("n_tokens"))
    seq_of: I32 = field(metadata=array_of("n_tokens"))  # index of the sequence in this step
    q_start: I32 = field(metadata=array_of("n_seqs", more=1))
    kv_len: I32 = field(metadata=array_of("n_seqs"))
    block_table: I32 = field(metadata=array_of("n_seqs", cols="n_blocks_per_seq"))
    out_rows: I32 = field(metadata=array_of("n_outputs"))
    state_in: I32 = field(metadata=array_of("n_seqs"))
    state_out: I32 = field(metadata=array_of("n_seqs"))
    n_tokens: int = 0
    n_outputs: int = 0
    n_seqs: int = 0
    skip: frozenset[str] = frozenset()
    continues: bool = False

    @classmethod
    def empty(cls, limits: Limits) -> Batch:
        """Arrays for the largest step of ``limits``."""
        arrays: dict[str, Any] = {array.name: array.empty(limits) for array in arrays_of(cls)}
        return cls(**arrays)

    def place(self, i: int, row: int, tokens: Sequence[int], start: int, blocks: I32) -> int:
        """Sequence ``i`` computes ``tokens``, at its positions from ``start`` on, in the rows from
        ``row`` on, and its cache lies in ``blocks``. Returns the row after them."""
        n = len(tokens)
        last = row + n
        if n == 1:  # mostly, and slices take much longer
            self.tokens[row], self.positions[row], self.seq_of[row] = tokens[0], start, i
        else:
            self.tokens[row:last] = tokens
            self.positions[row:last] = range(start, start + n)
            self.seq_of[row:last] = i
        self.block_table[i, :len(blocks)] = blocks
        self.kv_len[i] = start + n
        self.q_start[i + 1] = last
        return last

    @property
    def size_class(self) -> SizeClass:
        """The class of the step: of at most two for each power of two up to the largest step."""
        n = 1 << (self.n_tokens - 1).bit_length()
        return SizeClass(min(n, len(self.tokens)), self.n_tokens == self.n_seqs)

    def size(self, symbol: str) -> int:
        """The present value of ``T`` or ``S``."""
        return self.n_tokens if symbol == "T" else self.n_outputs


def arrays_of(batch: type[Batch]) -> tuple[BatchArray, ...]:
    """The arrays of a class of batches, in the order of its fields."""
    return tuple(BatchArray(f.name, **f.metadata) for f in dataclasses.fields(batch) if f.metadata)
