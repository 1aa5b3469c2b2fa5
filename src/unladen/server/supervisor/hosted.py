"""A model with its worker and its requests."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

from unladen.server.asked import Asked
from unladen.server.core import Card, State, Wish
from unladen.server.events import Ended, Waiting, unpack
from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.settings import ModelSettings, Settings, plain_options
from unladen.server.supervisor.changes import Changes
from unladen.server.supervisor.kept import close_kept, open_kept
from unladen.server.supervisor.looking import Stamp, stamp_of
from unladen.server.supervisor.process import Worker
from unladen.server.supervisor.queue import Queue
from unladen.server.supervisor.showing import ANSWERS, card_of
from unladen.server.supervisor.staying import Staying
from unladen.server.supervisor.ticket import Ticket
from unladen.server.supervisor.watch import Watch

log = logging.getLogger("unladen.server")
worker_log = logging.getLogger("unladen.server.worker")

BACKOFF: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before a worker is started again, by the number of failures before it in a row."""
STEADY_SECONDS: Final = 60.0
"""A worker that lived so long was no failure at its start: the next one is started at once."""
LOAD_TRIES: Final = 2
"""How many workers in a row may die while they load before the model counts as broken."""
RETIRE_SECONDS: Final = 15.0
"""Seconds that a worker has to save conversations before it is ended. It takes three at most, but
on a busy machine it may have to wait for its turn."""


class Hosted:
    """The model that ``own`` describes. ``room`` makes room for it in memory, and keeps others from
    loading until it is left."""

    def __init__(self, own: ModelSettings, settings: Settings,
                 room: Callable[[Hosted], AbstractAsyncContextManager[None]]) -> None:
        self.own, self._settings = own, settings
        self._room = room
        self.state: State = "unloaded"
        self.share = 0.0
        self.loaded = (0, 0)
        """Bytes of the weights that are loaded, and of all weights."""
        self.fault: Fault | None = None
        """Why the last load or move failed, or what is wrong with the file."""
        self.facts: dict[str, Any] = {}
        self.resolved = ""
        """What loads the model: its file, or its name where that has settings; "" as long as
        nobody has looked."""
        self.watched: tuple[str, ...] = ()
        """The files of which :attr:`stamp` tells whether they are the same."""
        self.stamp: Stamp | None = None
        self.options: dict[str, Any] = dict(own.options)
        self._asked: dict[str, Any] = {}
        """Those of the options that a client asked for."""
        self._again: Mapping[str, Any] | None = None
        """Options of a load that was asked for while the model was unloaded; None: there is
        none."""
        self.queue = Queue(own.name, settings.max_waiting)
        self.used = time.monotonic()
        self.n_restarts = self.n_evictions = self.n_arrivals = 0
        self.tokens = Counter(dict.fromkeys(("prefilled", "written", "prompt", "cached"), 0))
        """Tokens that its workers computed, and those of the prompts of whole answers."""
        self._n_blocks = self._n_blocks_held = 0
        self._experts: Sequence[int] = (0, 0)
        self.worker: Worker | None = None
        self._life: asyncio.Task[None] | None = None
        self._changes = Changes()
        self._is_leaving = self._is_stopping = False
        self._fault: Fault | None = None
        """Ends requests that come soon after a load failed, instead of another load."""
        self._n_failures, self._not_before = 0, 0.0
        self._staying = Staying(own, settings, self._expire)
        self._leaving: asyncio.Task[None] | None = None
        self._load_s = self._ready_at = 0.0
        self._watch: Watch | None = None
        self._retired: asyncio.Future[int] | None = None
        self._moved: asyncio.Future[None] | None = None
        self._kept: int | None = None

    # What is known

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the model."""
        return (self.own.name, *self.own.aliases)

    @property
    def ref(self) -> str:
        """What loads the model."""
        return self.resolved or self.own.ref

    def found(self, facts: Mapping[str, Any]) -> None:
        """Take note of the model's files."""
        self.resolved, self.watched = facts["ref"], tuple(facts["watched"])
        self.stamp = stamp_of(self.watched)

    @property
    def is_loaded(self) -> bool:
        """Whether a worker has the model in memory, or is about to."""
        return self._life is not None

    def card(self) -> Card:
        """What is known now."""
        return card_of(
            self, expires=self._staying.expires, n_blocks=self._n_blocks,
            n_blocks_held=self._n_blocks_held, experts=self._experts,
            tokens_per_second=0.0 if self._watch is None else self._watch.tokens_per_second)

    # Requests

    def enter(self, asked: Asked, wish: Wish) -> Ticket:
        """Take a request. Raises a ``Fault`` where too many wait, or where the model couldn't be
        loaded a moment ago."""
        if self._life is None and self._fault is not None and time.monotonic() < self._not_before:
            raise replace(self._fault)
        n_before = self.queue.n_before
        ticket = self.queue.add(asked, wish)
        self.stay(wish)
        if wish.deadline is not None:
            ticket.timer = asyncio.get_running_loop().call_later(
                wish.deadline, self._expired, ticket)
        if self.state in ANSWERS and not self._is_leaving:
            if n_before:
                ticket.put(Waiting("queued", place=n_before))
            self._send(ticket)
        else:
            ticket.put(Waiting("loading", self.share))
            self.begin(wish.options)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Forget ``ticket``; what isn't done of it is cancelled."""
        cancel = self.queue.remove(ticket)
        if ticket.timer is not None:
            ticket.timer.cancel()  # else a deadline in a year keeps the request in memory for it
        if cancel is not None and self.worker is not None:
            self.worker.send(cancel)
        self.used = time.monotonic()
        self.settle()
        self._changes.tell()

    def _expired(self, ticket: Ticket) -> None:
        """End ``ticket`` where its time was over before a worker had it; a worker sees to that
        itself."""
        if not ticket.is_sent:
            ticket.end(Fault("deadline", f"{self.own.name!r} wasn't loaded in time",
                             hint="allow more time"))

    def _send(self, ticket: Ticket) -> None:
        if self.worker is not None:
            loads = ticket.came < self._ready_at
            self.worker.send(ticket.message(
                min(self._load_s, time.monotonic() - ticket.came) if loads else 0.0))

    # Loading and unloading

    def load(self, options: Mapping[str, Any]) -> None:
        """Load the model, unless that is under way. A model that is being unloaded is loaded again
        afterwards."""
        if self._life is not None and self._is_unloading:
            self._again = dict(options)
        else:
            self.begin(options)

    def begin(self, options: Mapping[str, Any] | None = None) -> None:
        """Load the model for the requests that wait, unless it is in memory."""
        if self._life is None:
            self._again = None
            self._asked = dict(options or {})
            self.options = {**self.own.options, **self._asked}
            self.state, self.fault, self._fault = "loading", None, None
            self._loads(0, 0)
            self._is_leaving = self._is_stopping = False
            self._life = asyncio.ensure_future(self._guarded())

    async def ready(self) -> None:
        """Wait until the model answers. Raises the ``Fault`` that it couldn't be loaded."""
        await self._changes.until(lambda: self._life is None or (
            self.state in ANSWERS and not self._is_leaving and self._again is None))
        if self._fault is not None and self.state not in ANSWERS:
            raise replace(self._fault)

    async def place(self, changes: Mapping[str, Any]) -> None:
        """Move the model, as :meth:`unladen.server.core.Core.place` says. A caller that is
        cancelled meanwhile ends nothing."""
        worker = self.worker
        if self.state != "ready" or self._is_leaving or worker is None:
            raise Fault("bad_request", f"{self.own.name!r} can't be moved: it is {self.state}",
                        hint="move a model that is loaded, one move at a time")
        self.state, self.fault = "moving", None
        self._staying.disarm()
        if self._watch is not None:
            self._watch.moves(True)
        moved = self._moved = asyncio.get_running_loop().create_future()
        worker.send(["place", dict(changes)])
        await asyncio.wait((moved, worker.gone), return_when=asyncio.FIRST_COMPLETED)
        if not moved.done():
            raise Fault("worker_lost", f"the worker of {self.own.name!r} died while it moved",
                        hint="it is started again as it was before")
        if self.fault is not None:
            raise replace(self.fault)

    def _end_move(self, facts: dict[str, Any], options: Mapping[str, Any], fault: Fault | None
                  ) -> None:
        """The worker has moved the model, or has left it as it was because of ``fault``."""
        if self.state != "moving" or self._moved is None:
            return
        self.state, self.fault = "ready", fault
        if fault is None:
            self.facts, self.options = facts, {**self.options, **options}
            self.n_arrivals += 1
            self.queue.n_seqs = max(1, facts["n_seqs"])
        else:
            log.error("%s stays where it is: %s", self.own.name, fault)
        if self._watch is not None:
            self._watch.moves(False)
        self._moved.set_result(None)
        self.settle()
        self._changes.tell()

    def _loads(self, done: int, total: int) -> None:
        """``done`` of ``total`` bytes are loaded."""
        self.loaded = done, total
        self.share = done / total if total else 0.0

    async def unload(self) -> None:
        """:meth:`retire` the model at a client's wish, and forget loads that were asked for
        before."""
        self._again = None
        await self.retire("it was unloaded")

    async def retire(self, why: str) -> None:
        """Unload the model once the requests that its worker has have ended. Others wait, and it is
        loaded again for them. A caller that is cancelled meanwhile cancels nothing: a model that
        is about to leave takes no requests, so it must leave."""
        await asyncio.shield(self._retiring(why))

    @property
    def _is_unloading(self) -> bool:
        """Whether the model is about to leave, or leaves."""
        return self._leaving is not None and not self._leaving.done()

    def _retiring(self, why: str) -> asyncio.Task[None]:
        if self._leaving is None or not self._is_unloading:
            self._leaving = asyncio.ensure_future(self._retire(why))
        return self._leaving

    async def _retire(self, why: str) -> None:
        await self._changes.until(lambda: self.state == "ready" or self._life is None
                          or self.queue.is_idle)
        if self.state != "ready":
            await self.stop(why)  # nobody waits for it
            return
        self._is_leaving = True
        worker = self.worker
        await self._changes.until(lambda: self.worker is not worker or not self.queue.is_busy)
        if worker is None or self.worker is not worker:
            return
        self._retired = asyncio.get_running_loop().create_future()
        worker.send(["retire"])
        await asyncio.wait((self._retired, worker.gone), timeout=RETIRE_SECONDS,
                           return_when=asyncio.FIRST_COMPLETED)
        n = self._retired.result() if self._retired.done() else 0
        log.info("%s is unloaded: %s; %d of its conversations are kept", self.own.name, why, n)
        worker.kill(why)
        await self._changes.until(lambda: self.worker is not worker)

    async def stop(self, why: str) -> None:
        """End the worker now, and wait until it is gone."""
        life = self._life
        if life is None:
            return
        self._is_leaving = self._is_stopping = True
        if self.worker is not None:
            self.worker.kill(why)
        else:
            life.cancel()
        await asyncio.wait((life,))
        if life.cancelled():
            self._over()

    async def close(self) -> None:
        """End the worker, and drop the conversations that are kept."""
        self._again = None
        await self.stop("the server shuts down")
        close_kept(self._kept)
        self._kept = None

    async def _guarded(self) -> None:
        """:meth:`_live`; a fault of this code ends the requests rather than leave them waiting."""
        try:
            await self._live()
        except Exception as error:
            log.error("the model %s can't go on", self.own.name, exc_info=error)
            self._failed(Fault("internal", f"{type(error).__name__}: {error}",
                               hint="the server's log says where"))

    async def _live(self) -> None:
        """From the first load to the last worker's end."""
        n_load_failures = 0
        while True:
            begun = time.monotonic()
            ready = asyncio.get_running_loop().create_future()
            fault: Fault | None = None
            why = ""
            try:
                async with self._room(self):
                    self._is_leaving = self._is_stopping
                    worker = await self._start(ready)
                    await asyncio.wait((ready, worker.gone), return_when=asyncio.FIRST_COMPLETED)
                if ready.done():
                    n_load_failures = 0
                    self._arrived(ready.result(), time.monotonic() - begun)
                why = await asyncio.shield(worker.gone)
            except Fault as told:
                fault = told
            finally:
                await self._end_worker()
            if fault is not None:
                return self._failed(fault)
            if self._is_leaving and not self.queue.is_busy:
                if self._is_stopping or self.queue.is_idle or self._again is not None:
                    return self._over()
                self.state = "loading"
                self._loads(0, 0)
                continue
            n_load_failures += not ready.done()
            self._lost(why, lived=time.monotonic() - begun)
            if n_load_failures >= LOAD_TRIES:
                return self._failed(Fault("load_failed", f"the worker of {self.own.name!r} died "
                                          f"while it loaded the model: {why}",
                                          hint="the server's log may say more"))
            self.state = "restarting"
            self._loads(0, 0)
            self._changes.tell()
            await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))

    async def _start(self, ready: asyncio.Future[dict[str, Any]]) -> Worker:
        """A worker that loads the model. ``ready`` gets what it tells once that is done, or the
        ``Fault`` that it can't be."""
        if self._kept is None:
            self._kept = open_kept()
        worker = self.worker = await Worker.start(
            ["load", self.ref, plain_options(self.options)], functools.partial(self._handle, ready),
            self._kept)
        self._watch = Watch(self._settings, worker, ready, lambda: self.queue.is_busy)
        return worker

    async def _end_worker(self) -> None:
        """Leave no process behind."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self.worker is not None:
            self.worker.kill("the server stops it")
            await self.worker.gone
            self.worker = None
        self._n_blocks = self._n_blocks_held = 0
        self._changes.tell()

    def _arrived(self, facts: dict[str, Any], seconds: float) -> None:
        self.facts, self._load_s, self._ready_at = facts, seconds, time.monotonic()
        self.state, self.share, self.fault = "ready", 1.0, None
        self.n_arrivals += 1
        if not self._is_unloading:
            self._again = None
        self.found(facts)
        log.info("%s is loaded in %.1f s; %d conversations go on", self.own.name, seconds,
                 facts.get("n_kept", 0))
        self.queue.n_seqs = max(1, facts["n_seqs"])
        for ticket in self.queue.unsent():
            self._send(ticket)
        self.settle()
        self._changes.tell()

    def _lost(self, why: str, lived: float) -> None:
        """A worker died: end its streams, and let requests without output wait for the next."""
        self.n_restarts += 1
        self._n_failures = 0 if lived >= STEADY_SECONDS else self._n_failures + 1
        pause = BACKOFF[min(max(0, self._n_failures - 1), len(BACKOFF) - 1)]
        self._not_before = time.monotonic() + pause
        self.fault = Fault("worker_lost", f"the worker died: {why}", hint="it is started again")
        log.error("the worker of %s died: %s; it is started again", self.own.name, why)
        self.queue.lose(Fault("worker_lost", f"the worker of {self.own.name!r} died: {why}",
                              hint="ask again: it is started again"))

    def _failed(self, fault: Fault) -> None:
        """The model can't be loaded."""
        self.fault = fault
        told = Fault("load_failed", f"{self.own.name!r} can't be loaded: {fault.message}"
                     if fault.kind != "load_failed" else fault.message, hint=fault.hint)
        log.error("%s", told)
        if self._asked:
            return self._failed_as_asked(told)
        self._n_failures += 1
        self._not_before = time.monotonic() + BACKOFF[min(self._n_failures, len(BACKOFF) - 1)]
        self._fault = told
        self.state, self.share, self._life = "failed", 0.0, None
        self.queue.fail(told)
        self._changes.tell()

    def _failed_as_asked(self, fault: Fault) -> None:
        """The model can't be loaded with the options of a client, such as a context that no memory
        holds. That is the affair of those who asked for them: others wait for another load."""
        self._fault, self.state, self.share, self._life = fault, "failed", 0.0, None
        self._not_before = time.monotonic()
        self.queue.fail(fault, self._asked)
        if not self.queue.is_idle:
            self.begin()
        self._changes.tell()

    def _over(self) -> None:
        """The model is unloaded."""
        self.state, self.share, self._life, self.worker = "unloaded", 0.0, None, None
        self._staying.disarm()
        if self._again is not None:
            self.begin(self._again)
        elif waiting := self.queue.unsent():  # they came while the worker ended
            self.begin(waiting[0].wish.options)
        self._changes.tell()

    # The worker's messages

    def _handle(self, ready: asyncio.Future[Any], message: Message) -> None:
        kind, *content = message
        if kind in ("event", "result", "started", "ended", "failed"):
            ticket = self.queue.get(content[0])
            if ticket is not None:
                self._pass_on(ticket, kind, content[1:])
        elif kind == "pong":
            counts, (self._n_blocks, self._n_blocks_held), self._experts = content
            if self._watch is not None:
                self._watch.answered(*counts)
        elif kind == "share":
            self._loads(*content)
            if self._watch is not None:
                self._watch.progressed()
            for ticket in self.queue.unsent():
                ticket.put(Waiting("loading", self.share))
        elif kind == "alive" and self._watch is not None:
            self._watch.progressed()
        elif kind == "computed":
            self.tokens.update(prefilled=content[0], written=content[1])
        elif kind == "placed":
            self._end_move(content[0], content[1], None)
        elif kind == "unplaceable":
            self._end_move({}, {}, Fault.unpack(content[0]))
        elif kind == "log":
            worker_log.log(content[0], "%s: %s", self.own.name, content[1])
        elif kind == "ready" and not ready.done():
            ready.set_result(content[0])
        elif kind == "unloadable" and not ready.done():
            ready.set_exception(Fault.unpack(content[0]))
        elif kind == "retired" and self._retired is not None and not self._retired.done():
            self._retired.set_result(content[0])

    def _pass_on(self, ticket: Ticket, kind: str, content: list[Any]) -> None:
        """Give ``ticket`` what its worker sent."""
        if kind == "started":
            ticket.is_started = True
        elif kind in ("ended", "failed"):
            ticket.end(Fault.unpack(content[0]) if kind == "failed" else None)
            self._n_failures = 0
        else:
            event = unpack(content[0])
            if isinstance(event, Ended):
                self.tokens.update(prompt=event.n_prompt, cached=event.n_cached)
            ticket.put(event)

    # How long it stays

    def stay(self, wish: Wish) -> None:
        """Let the model stay loaded as ``wish`` says."""
        self.used = time.monotonic()
        self._staying.ask(wish)

    def settle(self) -> None:
        """Unload the model if nobody asks for a while."""
        if not self.queue and self.state == "ready":
            self._staying.arm()

    def _expire(self) -> None:
        if not self.queue and self.worker is not None:
            self._retiring("nobody asked for it")
