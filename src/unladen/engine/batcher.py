"""Picks what a step computes: decoding sequences first, then prompts in chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unladen.engine.blame import blame
from unladen.engine.pace import Pace
from unladen.engine.request import Request
from unladen.engine.running import Running
from unladen.graph.batch import Batch
from unladen.schedule.cut.choose_on_device import SKIPPED
from unladen.types import Limits


@dataclass(frozen=True, slots=True)
class Work:
    """A request's part of a step: ``n_tokens``, from its first pending one on. The last
    ``n_outputs`` of them get a row of logits. The last tokens are its ``draft``: guesses at the
    tokens that it will write."""

    running: Running
    n_tokens: int
    n_outputs: int
    draft: Sequence[int] = ()

    @property
    def request(self) -> Request:
        """The request that the work is for."""
        return self.running.request


def pick(running: Sequence[Running], limits: Limits, pace: Pace) -> list[Work]:
    """Work for one step within ``limits``, and within the time that ``pace`` leaves to prompts.

    Every decoding request gets its token; :func:`_shares` divides the rest among the prompts.
    ``running`` is in order of arrival.
    """
    chosen = [Work(r, 1, 1) for r in running if r.is_decoding][:limits.n_seqs]
    n_tokens, n_outputs = limits.n_tokens - len(chosen), limits.n_outputs - len(chosen)
    prompts = [r for r in running if not r.is_decoding][:limits.n_seqs - len(chosen)]
    if not prompts:
        return chosen
    shares = ([(each, each.n_pending) for each in prompts] if limits.whole_sequences else
              _shares(prompts, n_tokens, len(chosen), pace))
    for each, n in shares:
        wants_all = each.request.wants_all_logits
        if limits.whole_sequences:
            n = n if n <= min(n_tokens, n_outputs) else 0
        elif wants_all:
            n = min(n, n_outputs)
        else:
            n = min(n, _to_checkpoint(each, limits.block_tokens) or n)
        n_rows = n if wants_all else int(n == each.n_pending)
        if n > 0 and n_rows <= n_outputs:
            chosen.append(Work(each, n, n_rows))
            n_tokens -= n
            n_outputs -= n_rows
    return chosen


def _shares(prompts: Sequence[Running], n_tokens: int, n_decoding: int, pace: Pace
            ) -> Sequence[tuple[Running, int]]:
    """The prompts of a step, and how many tokens of each it computes: ``n_tokens`` at most in all.

    Where others wait for the end of the step, it has as many tokens as ``pace`` leaves beside
    ``n_decoding`` sequences, but at least ``MIN_CHUNK``. Others wait where sequences decode, or
    where a prompt would be complete within that time.

    Prompts of the highest priority come first, and among these the one with the fewest tokens left,
    so that short prompts needn't wait for long ones. The oldest prompt gets a quarter of the
    tokens, or in one of four steps ``MIN_CHUNK``, so that no prompt starves.
    """
    order = sorted(prompts, key=lambda r: (-r.request.priority, r.n_pending))
    oldest, first = prompts[0], order[0]
    units = pace.units(n_decoding)
    if not n_decoding and (
            len(prompts) == 1 or first.n_pending * pace.cost(first.cached.length) > units):
        units = math.inf
    shares: dict[Running, int] = {}

    def give(each: Running, most: float) -> None:
        nonlocal n_tokens, units
        n_left = min(each.n_pending - shares.get(each, 0), n_tokens)
        cost = pace.cost(each.cached.length)
        n = int(min(n_left, most, units / cost))
        if not shares:
            n = max(n, min(n_left, MIN_CHUNK))
        if n > 0 and (each in shares or n >= min(n_left, MIN_CHUNK)):
            shares[each] = shares.get(each, 0) + n
            n_tokens -= n
            units -= n * cost

    if oldest is not first:
        quarter = min(n_tokens, units / pace.cost(oldest.cached.length)) // 4
        if quarter >= MIN_CHUNK or oldest.n_passed_over >= 3:
            give(oldest, max(quarter, MIN_CHUNK))
    for each in order:
        give(each, math.inf)
    oldest.n_passed_over = 0 if oldest in shares else oldest.n_passed_over + 1
    return [(each, shares[each]) for each in prompts if each in shares]


def _to_checkpoint(running: Running, block_tokens: int) -> int:
    """How many tokens a recurrent sequence lacks to the end of the last whole block of its prompt;
    0: none. A chunk that ends there leaves a checkpoint. A later prompt that differs only after the
    checkpoint, such as the next turn of a chat, goes on from it."""
    cached = running.cached
    if not cached.is_recurrent:
        return 0
    return max(0, len(running.request.tokens) // block_tokens * block_tokens - cached.length)


MIN_CHUNK = 32
"""Fewest tokens of a prompt in a step that has room for them: with fewer, matrix kernels are
slow."""


def fill(batch: Batch, work: Sequence[Work], op: str = "") -> None:
    """Write the metadata of ``work`` into the arrays of ``batch``; ``op``: the op of ``NARROWING``
    that chooses among the logits; "": they are read whole."""
    row = n_outputs = batch.n_rows = 0
    for i, item in enumerate(work):
        request, cached, n = item.request, item.running.cached, item.n_tokens
        start = cached.length
        try:
            row = batch.place(i, row, [*request.tokens[start:start + n], *item.draft], start,
                              cached.tables)
        except Exception as error:  # noqa: BLE001  # blame() names the request
            raise blame(request, error) from None
        if request.second is not None:
            batch.mark(max(request.second.first - start, 0) + row - n - len(item.draft), row,
                       request.second.row)
        batch.state_in[i], batch.state_out[i] = cached.slot, cached.next_slot
        if item.n_outputs == 1:
            batch.out_rows[n_outputs] = row - 1
        else:
            batch.out_rows[n_outputs:n_outputs + item.n_outputs] = range(row - item.n_outputs, row)
        n_outputs += item.n_outputs
    batch.n_tokens, batch.n_outputs, batch.n_seqs = row, n_outputs, len(work)
    batch.skip, batch.continues = SKIPPED[op], False


def fill_next(batch: Batch, work: Sequence[Work]) -> list[Work]:
    """Write the step after ``work`` into ``batch`` before its tokens are known: one token of each
    request, which ``argmax`` chooses on the device. Returns the work of that step."""
    n = len(work)
    rows = np.arange(n)
    for i, item in enumerate(work):
        cached = item.running.cached
        batch.place_chosen(i, cached.length + item.n_tokens, cached.tables)
    batch.seq_of[:n] = batch.out_rows[:n] = rows
    batch.q_start[1:n + 1] = rows + 1
    batch.n_tokens = batch.n_outputs = batch.n_seqs = n
    batch.skip, batch.continues = SKIPPED["argmax"], True
    return [Work(item.running, 1, 1) for item in work]
