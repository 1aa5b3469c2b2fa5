"""Picks what a step computes: decoding sequences first, prompts in chunks of what room is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unladen.engine.blame import blame
from unladen.engine.request import Request
from unladen.graph.batch import Batch
from unladen.schedule.cut.choose_on_device import SKIPPED
from unladen.types import Limits


@dataclass(frozen=True, slots=True)
class Work:
    """``n_tokens`` of a request from its first pending one on; ``n_outputs`` rows of logits.
    The last of them are its ``draft``: guesses at what it will say."""

    request: Request
    n_tokens: int
    n_outputs: int
    draft: Sequence[int] = ()


def pick(running: Sequence[Request], limits: Limits) -> list[Work]:
    """Work for one step within ``limits``.

    Every decoding request gets its token; the prompts share the rest evenly, but at least
    ``MIN_CHUNK`` tokens each, so that a long prompt neither stops the decoding nor starves a short
    one. ``running`` is in order of arrival.
    """
    chosen = [Work(r, 1, 1) for r in running if r.is_decoding][:limits.n_seqs]
    n_tokens, n_outputs = limits.n_tokens - len(chosen), limits.n_outputs - len(chosen)
    prompts = [r for r in running if not r.is_decoding][:limits.n_seqs - len(chosen)]
    for i, request in enumerate(prompts):
        share = max(n_tokens // (len(prompts) - i), MIN_CHUNK)
        n = min(request.n_pending, share, n_tokens)
        if limits.whole_sequences:
            n = request.n_pending if request.n_pending <= min(n_tokens, n_outputs) else 0
        elif request.wants_all_logits:
            n = min(n, n_outputs)
        elif n == request.n_pending:
            n = _to_checkpoint(request, limits.block_tokens) or n
        n_rows = n if request.wants_all_logits else int(n == request.n_pending)
        if n > 0 and n_rows <= n_outputs:
            chosen.append(Work(request, n, n_rows))
            n_tokens -= n
            n_outputs -= n_rows
    return chosen


def _to_checkpoint(request: Request, block_tokens: int) -> int:
    """How many tokens a recurrent sequence lacks to the last end of a block in its prompt: a chunk
    that ends there leaves a checkpoint, from which a later prompt that differs after it, and so the
    next turn of a chat, can go on. 0: none."""
    cached = request.cached
    if cached is None or not cached.is_recurrent:
        return 0
    return max(0, len(request.tokens) // block_tokens * block_tokens - cached.length)


MIN_CHUNK = 32
"""Tokens: fewer make poor use of the matrix kernels."""


def fill(batch: Batch, work: Sequence[Work], op: str = "") -> None:
    """Write the metadata of ``work`` into the arrays of ``batch``; ``op`` of ``NARROWING`` is to
    choose among the logits, "": none."""
    row = n_outputs = 0
    for i, item in enumerate(work):
        request, n = item.request, item.n_tokens
        cached = request.cached
        assert cached is not None
        start = cached.length
        try:
            row = batch.place(i, row, [*request.tokens[start:start + n], *item.draft], start,
                              cached.table[:cached.n_blocks])
        except Exception as error:  # noqa: BLE001  # blame() tells whose
            raise blame(request, error) from None
        batch.state_in[i], batch.state_out[i] = cached.slot, cached.next_slot
        if item.n_outputs == 1:
            batch.out_rows[n_outputs] = row - 1
        else:
            batch.out_rows[n_outputs:n_outputs + item.n_outputs] = range(row - item.n_outputs, row)
        n_outputs += item.n_outputs
    batch.n_tokens, batch.n_outputs, batch.n_seqs = row, n_outputs, len(work)
    batch.skip, batch.continues = SKIPPED[op], False


def fill_next(batch: Batch, work: Sequence[Work]) -> list[Work]:
    """Write the step after ``work`` into ``batch``, and return it: the token of each request that
    ``argmax`` is about to choose."""
    n = len(work)
    rows = np.arange(n)
    for i, item in enumerate(work):
        cached = item.request.cached
        assert cached is not None
        start, n_blocks = cached.length + item.n_tokens, cached.n_blocks
        batch.index[i], batch.kv_len[i] = start, start + 1
        batch.block_table[i, :n_blocks] = cached.table[:n_blocks]
    batch.seq_of[:n] = batch.out_rows[:n] = rows
    batch.q_start[1:n + 1] = rows + 1
    batch.n_tokens = batch.n_outputs = batch.n_seqs = n
    batch.skip, batch.continues = SKIPPED["argmax"], True
    return [Work(item.request, 1, 1) for item in work]
