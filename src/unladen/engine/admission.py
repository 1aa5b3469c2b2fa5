"""Admits requests to the cache, leaves them room to grow, and sends requests back to the queue.

A request is admitted if the cache has blocks for all its tokens and for the tokens that it and all
running requests are expected to write. A request with ``max_tokens`` is expected to write that
many. A request that may fill the context is expected to write as many tokens again as it has, at
least ``EXPECTED``. Blocks that several requests share are counted once. The blocks of layers that
see a window are counted for each window alone: :mod:`unladen.engine.room`.

Where more is written than expected, a session between two requests gives its blocks back, then a
request that runs is sent back to the queue. It is computed again later, with room for all that it
may write, and is not sent back a second time. So each request is computed at most twice: all
requests that were sent back before fit into the cache together, so there is always another request
to send back.
"""

from __future__ import annotations

import logging
import time
from itertools import islice

from unladen.cache import BlockPool, CachedSequence, WindowPool
from unladen.cache.blocks import n_same
from unladen.cache.sequence import CopyBlock
from unladen.engine.blame import keep
from unladen.engine.request import Request
from unladen.engine.room import has_window_room, n_for_window
from unladen.engine.running import Running
from unladen.engine.session import Kept, Session
from unladen.engine.waiting import Waiting
from unladen.types import Limits

log = logging.getLogger("unladen")

EXPECTED = 256
"""Tokens that a request of no known length is expected to write at least: a longer answer than
most, so that few requests are sent back, and less than a twentieth of usual contexts."""


class Admission:
    """The requests of an engine and their sequences in the cache.

    :attr:`waiting` has the requests that wait, :attr:`running` those that are computed, oldest
    first, and :attr:`kept` the sequences that sessions keep between requests.

    * ``limits``: the largest step and the size of the cache.
    * ``copy(target, source)``: copies a block of the cache.
    * ``max_queue``: requests that may wait beyond the free places of the next step.
    """

    def __init__(self, limits: Limits, copy: CopyBlock, max_queue: int) -> None:
        self._copy = copy
        self.limits = limits
        self.waiting = Waiting(max_queue)
        self.running: list[Running] = []
        self.kept = Kept()
        self.pool = self._empty_pool()

    def _empty_pool(self) -> BlockPool:
        limits = self.limits
        windows = [WindowPool(tokens, limits.n_window_blocks(i))
                   for i, (tokens, _) in enumerate(limits.windows)]
        return BlockPool(limits.n_blocks, limits.block_tokens, limits.n_slots, windows)

    def sequence(self) -> CachedSequence:
        """A new, empty sequence in the cache; its owner releases it."""
        return CachedSequence(self.pool, self._copy, self.limits.n_blocks_per_seq)

    def everyone(self) -> list[Request]:
        """All requests that run or wait."""
        return [*(running.request for running in self.running), *self.waiting]

    @property
    def n_places(self) -> int:
        """Sequences for which the next step has room."""
        return max(0, self.limits.n_seqs - len(self.running))

    def admit(self, context_size: int, *, reuses: bool) -> None:
        """Let requests run as long as there is room. Unless ``reuses``, all of their tokens are
        computed, whatever is in the cache."""
        while self.waiting and self.n_places:
            candidates = islice(self.waiting.in_turn(), self.limits.n_seqs)
            request = next((r for r in candidates if not (reuses and self._must_wait(r))), None)
            if request is None:
                return
            if self.waiting.drop(request, time.monotonic()):  # it came after the last sweep
                continue
            cached = self._place(request, reuses=reuses)
            running = Running(request, cached)
            while self.running and not self._has_room_for(running, context_size):
                if not self.kept.release_oldest():
                    self._withdraw(running)
                    return
            if not self.waiting.take(request):  # its caller has cancelled it just now
                self._withdraw(running)
                continue
            if request.n_reused is None:  # else it was sent back, and reuses its own work
                request.n_reused = cached.length
                request.admitted = time.perf_counter()
            self.running.append(running)

    def _place(self, request: Request, *, reuses: bool) -> CachedSequence:
        """A sequence for ``request`` that begins with those of its tokens that are in the cache
        already."""
        kept = None if request.session is None else self._cut(request, request.session)
        if kept is not None and reuses and kept.length == len(request.tokens) - 1:
            return kept
        cached = self.sequence()
        if reuses and not request.wants_all_logits:
            keep(request, cached.attach, request.tokens)
        if kept is None:
            return cached
        worse = cached if reuses and kept.length >= cached.length else kept
        worse.release()
        return kept if worse is cached else cached

    def _cut(self, request: Request, session: Session) -> CachedSequence | None:
        """The kept sequence of ``session``, cut to what ``request`` begins with; None: there is
        none."""
        kept = self.kept.take(session)
        if kept is not None:
            # The last token must be computed to know what follows.
            known = session.cached_tokens[:kept.length]
            keep(request, kept.truncate, n_same(known, request.tokens[:-1]))
        return kept

    def _withdraw(self, running: Running) -> None:
        session = running.request.session
        if session is None:
            running.leave()
        else:
            self.kept.put(session, running.cached, running.request.tokens)

    def _must_wait(self, request: Request) -> bool:
        """Whether a running request is about to compute whole blocks that ``request`` begins with
        too. Then ``request`` waits for them rather than compute them again."""
        if request.wants_all_logits or request.session is not None or self.limits.n_slots:
            return False  # recurrent state is reused at checkpoints only, and few blocks end at one
        size = self.limits.block_tokens
        for running in self.running:
            tokens, at = running.request.tokens, running.cached.length // size * size
            if (not running.is_decoding and tokens[:size] == request.tokens[:size]
                    and at + size <= min(len(tokens), len(request.tokens) - 1)
                    and tokens[:at + size] == request.tokens[:at + size]):
                return True
        return False

    def _has_room_for(self, candidate: Running, context_size: int) -> bool:
        everyone = [*self.running, candidate]
        if self.limits.n_slots and self.pool.slots.n_available < 1 + len(everyone):
            return False  # each holds one slot of state between steps, and a second one in a step
        tokens = [n_expected(r.request, context_size) for r in everyone]
        n_step = self.limits.n_tokens
        if candidate.request.was_sent_back:
            again = [n for n, r in zip(tokens, everyone, strict=True) if r.request.was_sent_back]
            whole = sum(-(-n // self.limits.block_tokens) for n in again)
            if whole > self.pool.n_blocks or not all(
                    n_for_window(window, again, n_step, self.limits.block_tokens)
                    <= window.n_blocks for window in self.pool.windows):
                return False
        each = [(r.cached, n) for r, n in zip(everyone, tokens, strict=True)]
        return (sum(cached.n_missing(n) for cached, n in each) <= self.pool.n_available
                and all(has_window_room(window, [(cached.windows[i], cached.length, n)
                                                 for cached, n in each], n_step)
                        for i, window in enumerate(self.pool.windows)))

    def make_room(self, running: Running, n_tokens: int) -> bool:
        """Reserve blocks for ``n_tokens`` of ``running`` in total. Where too few are free, sessions
        give theirs back, then other requests are sent back. False where ``running`` itself was sent
        back."""
        while not running.has_left:
            if keep(running.request, running.cached.reserve, n_tokens):
                return True
            if not self.kept.release_oldest():
                self._send_back(self._victim())
        return False

    def _victim(self) -> Running:
        """The request to send back: the youngest of the lowest priority, among those that weren't
        sent back before."""
        return min(enumerate(self.running),
                   key=lambda each: (each[1].request.was_sent_back, each[1].request.priority,
                                     -each[0]))[1]

    def _send_back(self, running: Running) -> None:
        request = running.request
        log.info("the cache is full: a request of %d tokens waits", len(request.tokens))
        running.leave()
        request.was_sent_back = True
        request.logits.clear()
        self.waiting.put_back(request)
        self.running.remove(running)

    def retire(self) -> None:
        """Drop the requests that were cancelled, have ended or are late, and the sequences of
        closed sessions."""
        now = time.monotonic()
        self.waiting.sweep(now)
        self.kept.release_closed()
        for running in [*self.running]:
            running.request.give_up(now)
            if running.request.done:
                self._dismiss(running)

    def _dismiss(self, running: Running) -> None:
        request, session = running.request, running.request.session
        if request.at_end is not None:
            request.at_end(running.cached)
        if session is None or session.is_closed or request.error is not None:
            running.leave()
        else:
            running.has_left = True
            self.kept.put(session, running.cached, running.request.tokens)
        self.running.remove(running)

    def restart(self) -> None:
        """Empty the cache; requests that aren't done are computed again from the tokens that they
        have."""
        self.pool = self._empty_pool()
        self.kept.forget()
        self.waiting.end()  # the request that failed may be one that waits
        for running in reversed(self.running):
            running.has_left = True
            request = running.request
            if not request.done and request not in self.waiting:
                request.logits.clear()
                self.waiting.put_back(request)
        self.running.clear()

    def widen(self, limits: Limits) -> None:
        """Use ``limits`` from now on: the cache has more blocks, or sequences may be longer."""
        self.limits = limits
        self.pool.grow(limits.n_blocks)
        for i, window in enumerate(self.pool.windows):
            window.grow(limits.n_window_blocks(i))
        for cached in [*(running.cached for running in self.running), *self.kept]:
            cached.widen(limits.n_blocks_per_seq)


def n_expected(request: Request, context_size: int) -> int:
    """How many tokens of ``request`` the cache is expected to hold at its end. The last token that
    is written is never computed, so it isn't counted."""
    n = len(request.tokens)
    if request.wants_all_logits:
        return n
    n_left = request.n_left(context_size)
    if not request.was_sent_back and n + n_left >= context_size:
        n_left = min(n_left, max(EXPECTED, n - request.n_prompt))
    return n + max(0, n_left - 1)
