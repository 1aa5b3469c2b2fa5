"""A worker's life: it loads the model, then answers until its server closes the connection."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from unladen.server.asked import unpack
from unladen.server.ipc import Message
from unladen.server.worker.arrival import arrival
from unladen.server.worker.describe import describe
from unladen.server.worker.job import failed
from unladen.server.worker.keeping import restore, save
from unladen.server.worker.loop import LOST, Loop
from unladen.server.worker.preparing import prepared
from unladen.server.worker.telling import tell_log
from unladen.server.worker.wrong import fault_of

if TYPE_CHECKING:
    from unladen.server.worker.link import Link
    from unladen.types import LoadProgress

N_PREPARING = 2
"""Threads that prepare requests: one that takes long doesn't keep the others waiting."""
SHARE_SECONDS = 0.1
"""Seconds between two messages on the progress of loading: as often as a person notices."""


class Serving:
    """Handles the messages of the server behind ``link``."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop: Loop | None = None
        self._threads = ThreadPoolExecutor(N_PREPARING, "unladen-prepare")
        self._told = 0.0

    def load(self, ref: str, options: Mapping[str, Any], kept: int | None) -> Loop:
        """Load the model ``ref`` with ``options``, parameters of :class:`unladen.Model`, and the
        conversations in the file ``kept``."""
        from unladen.api import Model
        from unladen.api.begin import local
        model = Model(local(ref, progress=arrival(self._tell_alive)), **options,
                      progress=self._tell_share)
        restored = [] if kept is None else restore(model, kept)
        loop = self._loop = Loop(model, self._link)
        for tokens in restored:  # so that they are kept again, though nobody goes on with them now
            loop.recent.add(tokens)
        self._link.send([["ready", describe(model) | {"n_kept": len(restored)}]])
        return loop

    def handle(self, message: Message) -> None:
        """Do what ``message`` asks. The thread that reads calls it, so nothing here takes long."""
        kind, *content = message
        if kind == "ping":
            loop = self._loop
            counts = [[0, 0]] * 3 if loop is None else [
                [loop.n_steps, loop.n_written], [*loop.blocks()], [*loop.experts()]]
            self._link.send([["pong", *counts]])
        elif kind == "ask" and self._loop is not None:
            self._loop.expect(content[0])
            self._threads.submit(self._prepare, self._loop, *content)
        elif kind == "cancel" and self._loop is not None:
            self._loop.cancel(content[0])
        elif kind == "place" and self._loop is not None:
            self._threads.submit(self._place, self._loop, *content)
        elif kind == "retire" and self._loop is not None:
            self._loop.stop()

    def _prepare(self, loop: Loop, id: int, asked: dict[str, Any],  # noqa: A002
                 treatment: dict[str, Any]) -> None:
        try:
            known, job = prepared(loop.model, id, unpack(asked), treatment)
        except BaseException as error:  # noqa: BLE001  # it is this request's alone
            loop.drop(id)
            self._link.send([failed(id, fault_of(error))])
            return
        if known:
            self._link.send(known)
        if job is None:
            loop.drop(id)
        else:
            loop.add(job)

    def _place(self, loop: Loop, changes: dict[str, Any]) -> None:
        """Move the model between two steps; jobs go on afterwards."""
        try:
            loop.model.place(**changes)
            facts = describe(loop.model)
        except BaseException as error:  # noqa: BLE001  # the model is as it was
            if loop.model.engine.plans.is_ended:  # memory that it gave back was taken meanwhile
                traceback.print_exception(error)
                os._exit(LOST)  # the server starts another worker
            self._link.send([["unplaceable", fault_of(error).pack()]])
        else:
            self._link.send([["placed", facts, changes]])

    def _tell_alive(self) -> None:
        """Tell that a download goes on."""
        now = time.monotonic()
        if now - self._told >= SHARE_SECONDS:
            self._told = now
            self._link.send([["alive"]])

    def _tell_share(self, progress: LoadProgress) -> None:
        now = time.monotonic()
        if now - self._told >= SHARE_SECONDS:
            self._told = now
            self._link.send([["share", progress.done_bytes, progress.total_bytes]])


def serve(link: Link, kept: int | None, ref: str, options: Mapping[str, Any]) -> None:
    """Load the model ``ref``, and answer for it. ``kept``: the file with conversations of the last
    worker, and for those of this one; None: there is no such file."""
    serving = Serving(link)
    tell_log(link)
    link.listen(serving.handle)
    try:
        loop = serving.load(ref, options, kept)
    except BaseException as error:  # noqa: BLE001  # the server tells its clients why
        link.send([["unloadable", fault_of(error).pack()]])
        return
    loop.run()
    n_saved = 0
    try:
        n_saved = save(loop.model, loop.recent, kept) if kept is not None else 0
    except Exception as error:  # noqa: BLE001  # the model is unloaded all the same
        traceback.print_exception(error)
    link.send([["retired", n_saved]])
    link.wait()
