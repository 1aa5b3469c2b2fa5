"""Continuous batching over one plan, shared by threads and coroutines.

No thread owns the loop: a caller that waits for a request and gets the lock runs the steps for all
requests. The other callers sleep until their own request has news or no caller runs steps. So a
single caller pays for no other thread, an interrupt reaches the caller itself, and ten callers make
one batch.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import TypeVar

from unladen.cache import BlockPool, CachedSequence
from unladen.engine.admission import Admission
from unladen.engine.batcher import Work, fill, fill_next, pick
from unladen.engine.blame import Blamed, keep
from unladen.engine.collect import collect
from unladen.engine.flight import Flight, narrowest
from unladen.engine.masks import MaskMaker
from unladen.engine.pace import Pace
from unladen.engine.prompt import check_prompt, check_room
from unladen.engine.request import Request
from unladen.engine.session import Session
from unladen.engine.speculate import Speculator
from unladen.engine.speculate.constrained import with_allowed_drafts
from unladen.engine.tally import Tally
from unladen.engine.tap import Watch
from unladen.engine.turns import Turns
from unladen.errors import Cancelled, ContextOverflow, DeviceLost, OutOfMemory, QueueFull
from unladen.runtime.carry import Kept
from unladen.runtime.plan import Plan
from unladen.runtime.plan_set import PlanSet
from unladen.types import Limits

log = logging.getLogger("unladen")

PATIENCE = 0.05
"""Seconds after which a sleeping caller checks whether any thread runs steps."""


_T = TypeVar("_T")

Relieve = Callable[["Engine", OutOfMemory], None]
"""Called when a step runs out of memory: makes the engine :meth:`Engine.adopt` a smaller plan, or
raises."""


class Engine:
    """Computes requests together, step by step: prompts in, tokens out.

    * ``plans``: the plans of the model's graphs.
    * ``context_size``: tokens at most in one sequence.
    * ``n_rows``: rows of the table of embeddings.
    * ``relieve``: called where a step runs out of memory; None: the caller that runs the step gets
      the :class:`OutOfMemory`.
    * ``n_draft``: tokens of a sequence that are guessed ahead at most.
    * ``max_queue``: requests that may wait beyond the free places of the next step.
    * ``step_seconds``: how long a step with prompts may take while other sequences wait for its
      end, as :class:`~unladen.engine.pace.Pace` predicts it; None: no bound.

    :attr:`pool` has the blocks of the cache. Ids below :attr:`n_vocab` may be in a prompt or be
    chosen; :meth:`restrict` lowers it. :attr:`watch`: the taps on the plan, None without any. With
    taps, all tokens of a prompt are computed and none come from the cache. :attr:`tally`: the
    tokens that were computed.

    An error that one request causes ends that request alone, and the others go on. A call from
    inside a step, by the same thread, raises :class:`ReentrantCall`. A forked child begins with no
    requests and an empty cache; devices that can't be used there raise :class:`DeviceLost`.
    """

    def __init__(self, plans: PlanSet, context_size: int, n_rows: int,
                 relieve: Relieve | None = None, n_draft: int = 0, max_queue: int = sys.maxsize,
                 step_seconds: float | None = None) -> None:
        self.plans, self.plan = plans, plans.main
        self.speculator = Speculator(n_draft)
        self._step_seconds = step_seconds
        self._pace = Pace(step_seconds, self.plan.blueprint.graph)
        self.watch: Watch | None = None
        self.tally = Tally()
        self.context_size = context_size
        self._relieve = relieve
        self._copier = _Copier(self.plan)
        self.n_vocab = self._n_rows = n_rows
        self._admission = Admission(self.plan.blueprint.limits, self._copier, max_queue)
        self._turns = Turns()
        self._masks = MaskMaker()
        self._flight: Flight | None = None
        self._in_step: Sequence[Work] = []
        self._is_computing = False
        self._is_closed = self._is_lost = False
        if hasattr(os, "register_at_fork"):
            engine = weakref.ref(self)
            os.register_at_fork(
                before=functools.partial(_at_fork, engine, Engine.prepare_fork),
                after_in_child=functools.partial(_at_fork, engine, Engine.leave_parent))

    @property
    def pool(self) -> BlockPool:
        """The blocks of the cache."""
        return self._admission.pool

    @property
    def _limits(self) -> Limits:
        return self._admission.limits

    def restrict(self, n_tokens: int) -> None:
        """Refuse ids from ``n_tokens`` on in prompts and never choose them, as if their logits were
        -inf. 0, or more than there are embeddings: take all ids that have an embedding."""
        self.n_vocab = min(n_tokens or self._n_rows, self._n_rows)

    def submit(self, request: Request) -> None:
        """Queue ``request``; raises :class:`ContextOverflow`, :class:`InvalidArgument`,
        :class:`QueueFull`, :class:`ReentrantCall`, and :class:`Cancelled` after :meth:`close`."""
        self._check_usable()
        check_prompt(request, self._limits, self.context_size, self.n_vocab)
        check_room(request, self.context_size)
        if request.session is not None:
            request.session.begin(request)
        try:
            self._admission.waiting.add(request, self._admission.n_places)
        except QueueFull as error:
            request.fail(error)
            raise

    def advance(self, request: Request) -> None:
        """Work until ``request`` has new text or is done."""
        self._work(request, lambda: bool(request.pieces) or request.done)

    def finish(self, request: Request) -> None:
        """Work until ``request`` is done; an interrupt cancels it and is raised."""
        try:
            self._work(request, lambda: request.done)
        except BaseException:
            self.cancel(request)
            raise

    def _work(self, request: Request, enough: Callable[[], bool]) -> None:
        def steps() -> None:
            while not enough() and not self._turns.is_visited:
                self.step()
        while not enough():
            if self._turns.is_taken:
                self._turns.refuse_reentrance()
                request.sleep(PATIENCE, lambda: self._turns.is_taken and not enough())
                self._end_waiting(request)
                continue
            try:
                self._turns.take(steps)
            finally:
                self._wake_all()

    def _end_waiting(self, request: Request) -> None:
        """End ``request`` if it waits in the queue and is cancelled or late, also while another
        thread is in a step."""
        now = time.monotonic()
        if (request.cancelled or request.is_late(now)) and (
                self._admission.waiting.withdraw(request)):
            request.give_up(now)

    def between_steps(self, action: Callable[[], _T]) -> _T:
        """Run ``action`` while no step runs, and return its result. A thread that runs steps pauses
        for it. Raises :class:`ReentrantCall`, and :class:`Cancelled` after :meth:`close`."""
        self._check_usable()
        return self._between_steps(action)

    def _between_steps(self, action: Callable[[], _T]) -> _T:
        try:
            return self._turns.visit(action)
        finally:
            self._wake_all()

    def _check_usable(self) -> None:
        self._turns.refuse_reentrance()
        if self._is_lost:
            raise DeviceLost("the model's devices belong to the process that this one was forked "
                             "from", hint="load the model after the fork, or start processes by "
                                          "spawn")
        if self._is_closed:
            raise _closed()

    def close(self) -> None:
        """End every request with :class:`Cancelled`, accept no more, and close the plans. Raises
        :class:`ReentrantCall`."""
        self._turns.refuse_reentrance()
        self._is_closed = True
        if self._in_step:
            self.plan.cancel()
        self._between_steps(self._end_all)
        if not self._is_lost:  # else the devices are the parent's to close
            self._between_steps(self.plans.close)
        self._masks.close()

    def _end_all(self) -> None:
        self._flight = None
        for request in self._admission.everyone():
            if not request.done:
                request.fail(_closed())
        self._admission.waiting.end()
        self._retire()

    def prepare_fork(self) -> None:
        """Before the process forks: let the masks of this thread's step be complete. The child
        finishes that step, and has no thread that could go on with them."""
        if self._turns.is_mine:
            self._masks.wait()

    def leave_parent(self) -> None:
        """In a forked child: begin again, without the parent's requests and threads."""
        self._masks.leave_parent()
        if self._turns.is_mine:  # this thread forked inside a step, and finishes that step
            return
        self._turns.renew()
        for request in self._admission.everyone():
            request.leave_behind(Cancelled("the request belongs to the process that this one was "
                                           "forked from", hint="ask again in this process"))
        self._flight, self._in_step, self._is_computing = None, [], False
        # A thread of the parent may have been writing to any block.
        self._admission.restart()
        self._admission.waiting.renew()
        self._is_lost = not self.plan.survives_fork

    def adopt(self, plans: PlanSet, context_size: int) -> None:
        """Go on with ``plans``. Call it :meth:`between_steps` only.

        Requests keep their tokens. The contents of the cache stay where ``plans`` continue the
        cache, else they are computed again. A request with more tokens than ``context_size`` ends
        as if it had reached that size.
        """
        try:
            self._settle()
            plan = plans.main
            grows = plan.continues_cache and context_size >= self.context_size
            self.plans, self.plan = plans, plan
            self._copier.plan = plan
            self._admission.limits = plan.blueprint.limits
            self.context_size = context_size
            self.speculator.forget()
            self._pace = Pace(self._step_seconds, plan.blueprint.graph)
            if not grows:
                self._restart()
                self._end_what_outgrew()
                return
            self._admission.widen(plan.blueprint.limits)
        except BaseException:
            self._restart()
            raise

    def surrender(self, error: OutOfMemory) -> Kept:
        """Free the memory of the plans, but what others may take over. Call it
        :meth:`between_steps` only, and :meth:`adopt` afterwards: until then every step raises
        ``error``."""
        self._settle()
        return self.plans.surrender(error)

    def forget(self) -> None:
        """Empty the cache, and compute requests under way again from the tokens that they have.
        Call it :meth:`between_steps` only."""
        self._restart()

    @property
    def n_needed(self) -> int:
        """The smallest context, in tokens, in which every request under way can write one more
        token."""
        return 1 + max((len(r.tokens) for r in self._admission.everyone()), default=0)

    def _end_what_outgrew(self) -> None:
        for request in self._admission.waiting:
            if len(request.tokens) > request.n_prompt and len(request.tokens) >= self.context_size:
                request.finish("context")
            elif len(request.tokens) + (not request.wants_all_logits) > self.context_size:
                request.fail(ContextOverflow(
                    f"the prompt has {request.n_prompt} tokens, and the context was reduced to "
                    f"{self.context_size}", n_tokens=request.n_prompt, limit=self.context_size,
                    hint="a larger context_size needs more memory"))
        self._admission.waiting.end()

    def _wake_all(self) -> None:
        for request in self._admission.everyone():
            request.wake()

    def sequence(self) -> CachedSequence:
        """A new, empty sequence in the cache; its owner releases it."""
        return self._admission.sequence()

    def fork(self, session: Session) -> Session:
        """A second session with the tokens of ``session`` so far. Both use the same blocks until
        one of them writes there. Raises :class:`InvalidArgument` while ``session`` is being
        continued."""
        def forked() -> Session:
            self._retire()  # first keep the sequence of the session's last request
            session.check_free()
            other = Session(session.tokens)
            self._admission.kept.fork(session, other)
            return other
        return self.between_steps(forked)

    def end(self, session: Session) -> None:
        """Close ``session`` from any thread, and cancel the request that continues it. Its blocks
        are given back as by :meth:`cancel`."""
        session.is_closed = True
        if session.request is not None:
            self.cancel(session.request)
        elif not self._turns.is_running:
            self._between_steps(self._retire)

    def cancel(self, request: Request) -> None:
        """Stop ``request``: at once if it waits in the queue or is alone in the running step, else
        after that step. Any thread may call this, also from inside a step. The request's blocks are
        given back by the next step, or here where no step is running."""
        request.cancelled = True
        self._end_waiting(request)
        self._admission.waiting.end()  # it may be sent back to the queue by the running step
        in_step = self._in_step
        if in_step and all(w.request.cancelled for w in in_step):
            self.plan.cancel()
        if not self._turns.is_running:
            self._between_steps(self._retire)

    def step(self) -> None:
        """One step: admit, pick, run, sample, retire. The caller has the turn."""
        if self._is_closed:  # closed after the request was submitted
            self._end_all()
            return
        try:
            self._step()
        except OutOfMemory as error:
            if self._relieve is None:
                raise
            # The failed step's frames still hold memory that the next plan needs.
            traceback.clear_frames(error.__traceback__)
            shortage = error.again()
        else:
            return
        self._relieve(self, shortage)

    def _step(self) -> None:
        start = time.perf_counter()
        try:
            flight = self._flight or self._begin()
            if flight is None:
                return
            self._flight = self._go_on(flight)
            load = self._pace.load(flight.work)
            self._collect(flight)
            seconds = time.perf_counter() - start
            self._pace.learn(load, seconds, has_waited=not self.plan.runs_ahead or any(
                w.n_outputs for w in flight.work))
            if self.speculator.is_watching:
                self.speculator.took(flight.work, seconds)
            self._retire()
        except Cancelled:
            self._flight = None
        except Blamed as blamed:
            self._blame(blamed)
        except BaseException:
            self._flight = None
            # While the plan computes, the engine changes nothing: the step can be dropped.
            if not self._is_computing:
                self._restart()
            raise
        finally:
            self._in_step, self._is_computing = [], False

    def _begin(self) -> Flight | None:
        """Start the next step; None where there is nothing to do."""
        self._masks.wait()  # a step that failed leaves them unfinished
        self._retire()
        self._admission.admit(self.context_size, reuses=self.watch is None)
        if self.watch is not None:
            self.watch.meet(each.request for each in self._admission.running)
        picked = pick(self._admission.running, self._limits, self._pace)
        work = [w for w in picked if self._has_room(w)]
        # Making room for one request may have sent back another that had its room already.
        work = [w for w in work if not w.running.has_left]
        if not work:
            return None
        extended = (work if self.watch is not None and self.watch.sees_rows else
                    self.speculator.extend(work, self._limits, self.context_size))
        if extended is not work:
            work = [self._with_room(w) for w in with_allowed_drafts(extended, self.n_vocab)]
        # Devices choose among all columns of the logits, even those that belong to no token.
        op = narrowest(work, self.plan.n_best if self.n_vocab == self._n_rows else {})
        fill(self.plan.batch, work, op)
        return self._start(work, op)

    def _go_on(self, flight: Flight) -> Flight | None:
        """Start the step after ``flight`` before the results of ``flight`` are read; None where
        the next step depends on them."""
        self._in_step = flight.work
        if (not self.plan.runs_ahead or self._admission.waiting
                or len(flight.work) < len(self._admission.running)
                or not flight.leads_on(self.context_size)
                or self.speculator.expects(flight.work, self._limits)):
            return None
        for item in flight.work:
            cached = item.running.cached
            if not keep(item.request, cached.reserve, cached.length + item.n_tokens + 1):
                return None
        return self._start(fill_next(self.plan.batch, flight.work), flight.op)

    def _settle(self) -> None:
        """Read the step that was started ahead, if there is one."""
        flight, self._flight = self._flight, None
        if flight is not None:
            try:
                self._collect(flight)
            except Blamed as blamed:
                self._blame(blamed)
            self._retire()

    def _start(self, work: Sequence[Work], op: str) -> Flight:
        self._in_step, self._is_computing = work, True
        start = Flight.start if self.watch is None else self.watch.start
        self._masks.begin(work, self.n_vocab)
        flight = start(self.plan, work, op)
        self._is_computing = False
        return flight

    def _blame(self, blamed: Blamed) -> None:
        blamed.request.fail(blamed.error)
        self._restart()

    def _restart(self) -> None:
        """Empty the cache, and compute requests that aren't done again from the tokens that they
        have. An interrupt may come between any two lines; then no count of the cache can be
        trusted."""
        self._flight = None
        self._admission.restart()

    def _has_room(self, work: Work) -> bool:
        """Reserve blocks for ``work``; False where its request was sent back because too few are
        free."""
        running = work.running
        return self._admission.make_room(running, running.cached.length + work.n_tokens)

    def _with_room(self, work: Work) -> Work:
        """``work``, without its draft where that would take blocks from others."""
        cached = work.running.cached
        n_tokens = cached.length + work.n_tokens
        if not work.draft or (cached.n_missing(n_tokens) <= self.pool.n_available
                              and keep(work.request, cached.reserve, n_tokens)):
            return work
        return Work(work.running, 1, 1)

    def _collect(self, flight: Flight) -> None:
        n_tokens = self.tally.begin(flight.work)
        collect(flight, self.plan, self._masks, self.n_vocab, self.context_size)
        self.tally.end(flight.work, n_tokens)
        if self.watch is not None:
            self.watch.record(flight.work, self.plan.batch, self.plan.output)

    def _retire(self) -> None:
        self._admission.retire()
        if self._flight is not None and all(w.request.done for w in self._flight.work):
            self._flight = None


def _closed() -> Cancelled:
    return Cancelled("the model was closed", hint="close it after its last request has ended")


def _at_fork(engine: weakref.ref[Engine], action: Callable[[Engine], None]) -> None:
    living = engine()
    if living is not None:
        action(living)


class _Copier:
    """Copies blocks in the cache of the engine's present plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, target: int, source: int, /, group: int = 0) -> None:
        self.plan.copy_block(target, source, group)
