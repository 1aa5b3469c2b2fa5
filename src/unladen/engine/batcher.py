"""Picks what a step computes: decoding sequences first, then prompts in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unladen.engine.blame import blame
from unladen.engine.request import Request
from unladen.engine.running import Running
from unladen.graph.batch import Batch
from unladen.schedule.cut.choose_on_device import SKIPPED
from unladen.types import Limits


@dataclass(frozen=True, slots=True)
class Work:
    """``n_tokens`` of a request from its first pending one on; ``n_outputs`` rows of logits.
    The last of them are its ``draft``: guesses at what it will say."""

    running: Running
    n_tokens: int
    n_outputs: int
    draft: Sequence[int] = ()

    @property
    def request(self) -> Request:
        """The request that the work is for."""
        return self.running.request


def pick(running: Sequence[Running], limits: Limits) -> list[Work]:
    """Work for one step within ``limits``.

    Every decoding request gets its token; the prompts share the rest evenly, but at least
    ``MIN_CHUNK`` tokens each, so that a long prompt neither stops the decoding nor starves a short
    one. ``running`` is in order of arrival.
    """
    chosen = [Work(r, 1, 1) for r in running if r.is_decoding][:limits.n_seqs]
    n_tokens, n_outputs = limits.n_tokens - len(chosen), limits.n_outputs - len(chosen)
    prompts = [r for r in running if not r.is_decoding][:limits.n_seqs - len(chosen)]
    for i, each in enumerate(prompts):
        wants_all = each.request.wants_all_logits
        share = max(n_tokens // (len(prompts) - i), MIN_CHUNK)
        n = min(each.n_pending, share, n_tokens)
        if limits.whole_sequences:
            n = each.n_pending if each.n_pending <= min(n_tokens, n_outputs) else 0
        elif wants_all:
            n = min(n, n_outputs)
        elif n == each.n_pending:
            n = _to_checkpoint(each, limits.block_tokens) or n
        n_rows = n if wants_all else int(n == each.n_pending)
        if n > 0 and n_rows <= n_outputs:
            chosen.append(Work(each, n, n_rows))
            n_tokens -= n
            n_outputs -= n_rows
    return chosen


def _to_checkpoint(running: Running, block_tokens: int) -> int:
    """How many tokens a recurrent sequence lacks to the last end of a block in its prompt: a chunk
    that ends there leaves a checkpoint, from which a later prompt that differs after it, and so the
    next turn of a chat, can go on. 0: none."""
    cached = running.cached
    if not cached.is_recurrent:
        return 0
    return max(0, len(running.request.tokens) // block_tokens * block_tokens - cached.length)


MIN_CHUNK = 32
"""Tokens: fewer make poor use of the matrix kernels."""


def fill(batch: Batch, work: Sequence[Work], op: str = "") -> None:
    """Write the metadata of ``work`` into the arrays of ``batch``; ``op`` of ``NARROWING`` is to
    choose among the logits, "": none."""
    row = n_outputs = 0
    for i, item in enumerate(work):
        request, cached, n = item.request, item.running.cached, item.n_tokens
        start = cached.length
        try:
            row = batch.place(i, row, [*request.tokens[start:start + n], *item.draft], start,
                              cached.blocks)
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
        cached = item.running.cached
        batch.place_chosen(i, cached.length + item.n_tokens, cached.blocks)
    batch.seq_of[:n] = batch.out_rows[:n] = rows
    batch.q_start[1:n + 1] = rows + 1
    batch.n_tokens = batch.n_outputs = batch.n_seqs = n
    batch.skip, batch.continues = SKIPPED["argmax"], True
    return [Work(item.running, 1, 1) for item in work]
