"""What changes from step to step: one small set of arrays, int32 but for rows of embeddings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.types import NO_ADAPTERS, NO_ROW, Limits

I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BatchArray:
    """An array of a batch. ``rows`` names the number of its rows, in :class:`Batch` those of this
    step and in :class:`~unladen.types.Limits` the most; it has ``more`` rows than that. ``cols``:
    the limit that is the length of a row; "": it has one dimension. ``flat``: where rows have one
    number, it has one dimension, too. ``asked``: a limit; where that is 0, no plan reads the array,
    and it has no rows. Its numbers are of ``dtype``, 32 bits each, and ``fill`` until something is
    placed."""

    name: str
    rows: str
    more: int = 0
    cols: str = ""
    flat: bool = False
    asked: str = ""
    dtype: type[np.int32 | np.float32] = np.int32
    fill: int = 0

    def empty(self, limits: Limits) -> npt.NDArray[Any]:
        """The array for the largest step of ``limits``."""
        is_asked = not self.asked or getattr(limits, self.asked)
        rows = getattr(limits, self.rows) + self.more if is_asked else 0
        cols = getattr(limits, self.cols) if self.cols else 1
        has_cols = self.cols and not (self.flat and cols == 1)
        return np.full((rows, cols) if has_cols else rows, self.fill, self.dtype)

    def whole(self, batch: Batch) -> npt.NDArray[Any]:
        """The array itself."""
        found: npt.NDArray[Any] = getattr(batch, self.name)
        return found

    def n_cols(self, batch: Batch) -> int:
        """The length of a row."""
        array = self.whole(batch)
        return int(array.shape[1]) if array.ndim > 1 else 1


def array_of(rows: str, **rest: object) -> Mapping[str, object]:
    """Metadata of a field of :class:`Batch` that is an array; see :class:`BatchArray`."""
    return {"rows": rows, **rest}


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
    ``q_start[s] .. q_start[s+1]``. ``index[t]`` is the token's place in its sequence and its row of
    the cache. ``positions[t]`` is what rotations and tables of positions go by. A text's positions
    are its indices, so ``index`` is the same array as ``positions`` where a position has one axis;
    with several axes a picture's tokens have a row and a column. ``kv_len[s]`` counts the
    sequence's tokens with those of this step. Row ``s`` of ``block_table`` names its cache blocks.
    ``out_rows[:n_outputs]`` are the rows whose logits are wanted, ascending. Recurrent nodes go on
    from the state in slot ``state_in[s]``, or from zeros where that is
    :data:`~unladen.types.NO_SLOT`, and leave theirs in ``state_out[s]``, another slot: a step never
    changes what it began with.

    ``rows[row_of[t]]`` stands in place of the embedding of token ``t``, except where ``row_of[t]``
    is :data:`~unladen.types.NO_ROW`. Token ``t`` sees its sequence up to the index ``sees_to[t]``:
    its own, or a later one of this step, as the tokens of a picture name its last one. No token
    sees less than the one before it. Sequence ``s`` uses the set of adapters ``adapter_of[s]``, or
    none where that is :data:`~unladen.types.NO_ADAPTERS`. Arrays that no limit asks for are empty.

    Ops in ``skip`` make nothing that is read after this step, nor does the output "logits" hold
    anything that is read where it is among them, so a backend may leave them out.
    ``continues``: the tokens are what ``argmax`` chose in the step before, row by row, and
    :attr:`tokens` says nothing; only for backends that run ahead.
    """

    tokens: I32 = field(metadata=array_of("n_tokens"))
    positions: I32 = field(metadata=array_of("n_tokens", cols="n_axes", flat=True))
    index: I32 = field(metadata=array_of("n_tokens"))
    seq_of: I32 = field(metadata=array_of("n_tokens"))  # index of the sequence in this step
    q_start: I32 = field(metadata=array_of("n_seqs", more=1))
    kv_len: I32 = field(metadata=array_of("n_seqs"))
    block_table: I32 = field(metadata=array_of("n_seqs", cols="n_blocks_per_seq"))
    out_rows: I32 = field(metadata=array_of("n_outputs"))
    state_in: I32 = field(metadata=array_of("n_seqs"))
    state_out: I32 = field(metadata=array_of("n_seqs"))
    row_of: I32 = field(metadata=array_of("n_tokens", asked="n_rows", fill=NO_ROW))
    rows: F32 = field(metadata=array_of("n_rows", cols="row_width", asked="n_rows",
                                         dtype=np.float32))
    sees_to: I32 = field(metadata=array_of("n_tokens", asked="spans"))
    adapter_of: I32 = field(metadata=array_of("n_seqs", asked="adapters", fill=NO_ADAPTERS))
    n_tokens: int = 0
    n_outputs: int = 0
    n_seqs: int = 0
    n_rows: int = 0
    skip: frozenset[str] = frozenset()
    continues: bool = False
    is_plain: bool = True
    """No rows, no spans, no adapters, and one axis: the arrays for these aren't kept up."""

    @classmethod
    def empty(cls, limits: Limits) -> Batch:
        """Arrays for the largest step of ``limits``."""
        arrays: dict[str, Any] = {array.name: array.empty(limits) for array in arrays_of(cls)}
        if limits.n_axes == 1:
            arrays["positions"] = arrays["index"]
        plain = limits.n_axes == 1 and not (limits.n_rows or limits.spans or limits.adapters)
        return cls(**arrays, is_plain=plain)

    def begin(self) -> None:
        """The next step is empty so far."""
        self.n_tokens = self.n_outputs = self.n_seqs = self.n_rows = 0

    def place(self, i: int, row: int, tokens: Sequence[int], start: int, blocks: I32, *,
              ahead: int = 0, adapters: int = NO_ADAPTERS) -> int:
        """Sequence ``i`` computes the text ``tokens``, with the indices from ``start`` on, in the
        rows from ``row`` on. Its cache lies in ``blocks``, and it uses the set ``adapters``. Its
        positions are its indices and ``ahead`` more on every axis; where positions have one axis,
        that is 0. Returns the row after them. What was placed for the same sequence stands right
        before."""
        n = len(tokens)
        last = row + n
        if n == 1:  # a slice takes much longer, and most sequences bring one token
            self.tokens[row], self.index[row], self.seq_of[row] = tokens[0], start, i
        else:
            self.tokens[row:last] = tokens
            self.index[row:last] = range(start, start + n)
            self.seq_of[row:last] = i
        self.block_table[i, :len(blocks)] = blocks
        self.kv_len[i] = start + n
        self.q_start[i + 1] = last
        if not self.is_plain:
            self._as_text(i, row, last, ahead, adapters)
        return last

    def place_chosen(self, i: int, start: int, blocks: I32, *, ahead: int = 0,
                     adapters: int = NO_ADAPTERS) -> None:
        """Sequence ``i`` computes, in row ``i``, the one token that the step before chooses, at the
        index ``start``; see :meth:`place`. :attr:`seq_of` and :attr:`q_start` stay as they are."""
        self.index[i], self.kv_len[i] = start, start + 1
        self.block_table[i, :len(blocks)] = blocks
        if not self.is_plain:
            self._as_text(i, i, i + 1, ahead, adapters)

    def _as_text(self, i: int, row: int, last: int, ahead: int, adapters: int) -> None:
        """Fill the arrays that only some plans read, where they do."""
        if self.row_of.size:
            self.row_of[row:last] = NO_ROW
        if self.sees_to.size:
            self.sees_to[row:last] = self.index[row:last]
        if self.adapter_of.size:
            self.adapter_of[i] = adapters
        if self.positions is not self.index:
            self.positions[row:last] = self.index[row:last, None] + ahead

    def place_rows(self, i: int, row: int, rows: F32, positions: I32, start: int, blocks: I32, *,
                   together: bool, adapters: int = NO_ADAPTERS) -> int:
        """As :meth:`place`, for tokens whose embeddings are ``rows`` f32 [n, row_width], at
        ``positions`` i32 [n, n_axes]. ``together``: they see one another."""
        n = len(rows)
        last = self.place(i, row, [0] * n, start, blocks, adapters=adapters)
        self.row_of[row:last] = range(self.n_rows, self.n_rows + n)
        self.rows[self.n_rows:self.n_rows + n] = rows
        self.n_rows += n
        self.positions[row:last] = positions.reshape(self.positions[row:last].shape)
        if together and self.sees_to.size:
            self.sees_to[row:last] = start + n - 1
        return last

    @property
    def size_class(self) -> SizeClass:
        """The class of the step: of at most two for each power of two up to the largest step."""
        n = 1 << (self.n_tokens - 1).bit_length()
        return SizeClass(min(n, len(self.tokens)), self.n_tokens == self.n_seqs)

    def size(self, symbol: str) -> int:
        """The present value of ``T``, ``S`` or ``R``."""
        if symbol == "T":
            return self.n_tokens
        return self.n_outputs if symbol == "S" else self.n_rows


def arrays_of(batch: type[Batch]) -> tuple[BatchArray, ...]:
    """The arrays of a class of batches, in the order of its fields."""
    return tuple(BatchArray(f.name, **f.metadata) for f in dataclasses.fields(batch) if f.metadata)
