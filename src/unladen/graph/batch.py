"""What changes from step to step: one small set of int32 arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.types import Limits

I32 = npt.NDArray[np.int32]


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

    tokens: I32        # [n_tokens]
    positions: I32     # [n_tokens]
    seq_of: I32        # [n_tokens] index of the sequence in this step
    q_start: I32       # [n_seqs + 1]
    kv_len: I32        # [n_seqs]
    block_table: I32   # [n_seqs, n_blocks_per_seq]
    out_rows: I32      # [n_outputs]
    state_in: I32      # [n_seqs]
    state_out: I32     # [n_seqs]
    n_tokens: int = 0
    n_outputs: int = 0
    n_seqs: int = 0
    skip: frozenset[str] = frozenset()
    continues: bool = False

    @classmethod
    def empty(cls, limits: Limits) -> Batch:
        """Arrays for the largest step of ``limits``."""
        def zeros(*shape: int) -> I32:
            return np.zeros(shape, np.int32)

        return cls(zeros(limits.n_tokens), zeros(limits.n_tokens), zeros(limits.n_tokens),
                   zeros(limits.n_seqs + 1), zeros(limits.n_seqs),
                   zeros(limits.n_seqs, limits.n_blocks_per_seq), zeros(limits.n_outputs),
                   zeros(limits.n_seqs), zeros(limits.n_seqs))

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

    def size(self, symbol: str) -> int:
        """The present value of ``T`` or ``S``."""
        return self.n_tokens if symbol == "T" else self.n_outputs
