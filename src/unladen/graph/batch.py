"""The metadata of a step: a small set of int32 arrays, and rows of embeddings in float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.types import NO_ADAPTERS, NO_ROW, Limits

I32 = npt.NDArray[np.int32]
"""An array of int32."""
F32 = npt.NDArray[np.float32]
"""An array of float32."""


@dataclass(frozen=True, slots=True)
class BatchArray:
    """How an array of a batch is laid out.

    * ``rows``: the attribute that counts its rows, in :class:`Batch` for a step and in
      :class:`~unladen.types.Limits` for the largest step.
    * ``more``: rows that the array has in addition to that count.
    * ``cols``: the limit that is the length of a row; "" for an array of one dimension.
    * ``flat``: the array has one dimension if a row has one number.
    * ``asked``: a limit. If it is 0, no plan reads the array, and the array has no rows.
    * ``dtype``: the type of its numbers, 32 bits each.
    * ``fill``: the number in every place before the first step.
    """

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
        """The array in ``batch``, with room for the largest step."""
        found: npt.NDArray[Any] = getattr(batch, self.name)
        return found

    def n_cols(self, batch: Batch) -> int:
        """The length of a row in ``batch``."""
        array = self.whole(batch)
        return int(array.shape[1]) if array.ndim > 1 else 1


def array_of(rows: str, **rest: object) -> Mapping[str, object]:
    """Metadata of a field of :class:`Batch` that is an array; see :class:`BatchArray`."""
    return {"rows": rows, **rest}


class SizeClass(NamedTuple):
    """Steps of similar size, for which a driver may record its commands once: such steps differ
    only in the batch's arrays and numbers, which lie at the same addresses in every step.

    * ``n_tokens``: the most tokens of a step in the class, a power of two or the plan's largest
      step. Every array and value has room for this many rows.
    * ``is_decode``: the step has one token of each of its sequences.
    """

    n_tokens: int
    is_decode: bool


@dataclass(slots=True)
class Batch:
    """The metadata of a step, in arrays of the plan's largest size that are reused for every step.

    Tokens of one sequence stand together: sequence ``s`` of the step owns the rows
    ``q_start[s] .. q_start[s+1]``. ``index[t]`` is the token's place in its sequence and its row of
    the cache. ``positions[t]`` is the position that RoPE and tables of positions use. A text's
    positions are its indices, so ``index`` is the same array as ``positions`` where a position has
    one axis; with several axes a picture's tokens have a row and a column. ``kv_len[s]`` counts the
    sequence's tokens, those of this step included. Row ``s`` of ``block_table`` has the numbers of
    its cache blocks: first those of whole sequences, then from column ``table_columns`` on those of
    the first window, and so on (see ``windows`` of :class:`~unladen.types.Limits`).
    ``out_rows[:n_outputs]`` are the rows whose logits are wanted, ascending.
    Recurrent nodes read the state in slot ``state_in[s]``, or start from zeros where that is
    :data:`~unladen.types.NO_SLOT`. They write the new state to ``state_out[s]``, another slot, so
    that a step never changes its own inputs.

    ``rows[row_of[t]]`` replaces the embedding of token ``t``, except where ``row_of[t]`` is
    :data:`~unladen.types.NO_ROW`. Token ``t`` sees its sequence up to the index ``sees_to[t]``.
    That is its own index or a later one of this step: for every token of a picture, the index of
    the picture's last token. ``sees_to`` never decreases within a sequence. Sequence ``s`` uses the
    set of adapters ``adapter_of[s]``, or none where that is :data:`~unladen.types.NO_ADAPTERS`. An
    array is empty if its limit is 0.

    ``skip`` names ops whose results nobody reads in this step; with "logits" it says that nobody
    reads that output. A backend may leave them out. ``continues``: the step's tokens are those that
    ``argmax`` chose in the step before, row by row, and :attr:`tokens` isn't read. Only backends
    that run ahead get such a step.
    """

    tokens: I32 = field(metadata=array_of("n_tokens"))
    positions: I32 = field(metadata=array_of("n_tokens", cols="n_axes", flat=True))
    index: I32 = field(metadata=array_of("n_tokens"))
    seq_of: I32 = field(metadata=array_of("n_tokens"))  # index of the sequence in this step
    q_start: I32 = field(metadata=array_of("n_seqs", more=1))
    kv_len: I32 = field(metadata=array_of("n_seqs"))
    block_table: I32 = field(metadata=array_of("n_seqs", cols="n_table_columns"))
    out_rows: I32 = field(metadata=array_of("n_outputs"))
    state_in: I32 = field(metadata=array_of("n_seqs"))
    state_out: I32 = field(metadata=array_of("n_seqs"))
    row_of: I32 = field(metadata=array_of("n_tokens", asked="n_rows", fill=NO_ROW))
    rows: F32 = field(metadata=array_of("n_rows", cols="row_width", asked="n_rows",
                                         dtype=np.float32))
    sees_to: I32 = field(metadata=array_of("n_tokens", asked="spans"))
    adapter_of: I32 = field(metadata=array_of("n_seqs", asked="adapters", fill=NO_ADAPTERS))
    table_columns: int = 0
    n_tokens: int = 0
    n_outputs: int = 0
    n_seqs: int = 0
    n_rows: int = 0
    skip: frozenset[str] = frozenset()
    continues: bool = False
    is_plain: bool = True
    """No rows, no spans, no adapters, and one axis: the arrays for these aren't updated."""

    @classmethod
    def empty(cls, limits: Limits) -> Batch:
        """Arrays for the largest step of ``limits``."""
        arrays: dict[str, Any] = {array.name: array.empty(limits) for array in arrays_of(cls)}
        if limits.n_axes == 1:
            arrays["positions"] = arrays["index"]
        plain = limits.n_axes == 1 and not (limits.n_rows or limits.spans or limits.adapters)
        return cls(**arrays, table_columns=limits.n_blocks_per_seq, is_plain=plain)

    def begin(self) -> None:
        """Start the next step, without tokens."""
        self.n_tokens = self.n_outputs = self.n_seqs = self.n_rows = 0

    def place(self, i: int, row: int, tokens: Sequence[int], start: int, blocks: I32, *,
              ahead: int = 0, adapters: int = NO_ADAPTERS) -> int:
        """Place tokens of a text and return the row after them. Tokens that were placed for the
        same sequence before must end right before ``row``.

        * ``i``: the sequence's number in this step.
        * ``row``: the row of the first token.
        * ``tokens``: the token ids.
        * ``start``: the index of the first token in its sequence.
        * ``blocks``: the sequence's cache blocks, int32 [n_blocks], with windows int32
          [n_groups, n_blocks].
        * ``ahead``: added to the indices to get the positions on every axis; 0 where positions have
          one axis.
        * ``adapters``: the set of adapters that the sequence uses.
        """
        n = len(tokens)
        last = row + n
        if n == 1:  # a slice takes much longer, and most sequences bring one token
            self.tokens[row], self.index[row], self.seq_of[row] = tokens[0], start, i
        else:
            self.tokens[row:last] = tokens
            self.index[row:last] = range(start, start + n)
            self.seq_of[row:last] = i
        if blocks.ndim == 1:
            self.block_table[i, :len(blocks)] = blocks
        else:
            self._place_tables(i, blocks)
        self.kv_len[i] = start + n
        self.q_start[i + 1] = last
        if not self.is_plain:
            self._as_text(i, row, last, ahead, adapters)
        return last

    def place_chosen(self, i: int, start: int, blocks: I32, *, ahead: int = 0,
                     adapters: int = NO_ADAPTERS) -> None:
        """As :meth:`place`, for the one token that the step before chooses, in row ``i`` at the
        index ``start``. :attr:`seq_of` and :attr:`q_start` stay as they are."""
        self.index[i], self.kv_len[i] = start, start + 1
        if blocks.ndim == 1:
            self.block_table[i, :len(blocks)] = blocks
        else:
            self._place_tables(i, blocks)
        if not self.is_plain:
            self._as_text(i, i, i + 1, ahead, adapters)

    def _place_tables(self, i: int, tables: I32) -> None:
        """Sequence ``i`` has in each group of layers the blocks that a row of ``tables`` names."""
        for group, blocks in enumerate(tables):
            first = group * self.table_columns
            self.block_table[i, first:first + len(blocks)] = blocks

    def _as_text(self, i: int, row: int, last: int, ahead: int, adapters: int) -> None:
        """Fill those arrays that only some plans read, as for tokens of a text. Arrays that this
        plan doesn't read are empty and stay so."""
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
        ``positions`` i32 [n, n_axes]. ``together``: all of these tokens see one another."""
        n = len(rows)
        last = self.place(i, row, [0] * n, start, blocks, adapters=adapters)
        self.row_of[row:last] = range(self.n_rows, self.n_rows + n)
        self.rows[self.n_rows:self.n_rows + n] = rows
        self.n_rows += n
        self.positions[row:last] = positions.reshape(self.positions[row:last].shape)
        if together and self.sees_to.size:
            self.sees_to[row:last] = start + n - 1
        return last

    def mark(self, row: int, last: int, brought: F32) -> None:
        """Let the tokens ``row .. last``, which are placed, have the embedding ``brought`` f32
        [row_width]."""
        if row >= last:
            return
        self.row_of[row:last] = self.n_rows
        self.rows[self.n_rows] = brought
        self.n_rows += 1

    @property
    def size_class(self) -> SizeClass:
        """The class of the step. There are at most two for each power of two up to the largest
        step."""
        n = 1 << (self.n_tokens - 1).bit_length()
        return SizeClass(min(n, len(self.tokens)), self.n_tokens == self.n_seqs)

    def size(self, symbol: str) -> int:
        """The value of ``T``, ``S`` or ``R`` in this step."""
        if symbol == "T":
            return self.n_tokens
        return self.n_outputs if symbol == "S" else self.n_rows


def arrays_of(batch: type[Batch]) -> tuple[BatchArray, ...]:
    """The layouts of the arrays of ``batch``, in the order of its fields."""
    return tuple(BatchArray(f.name, **f.metadata) for f in dataclasses.fields(batch) if f.metadata)
