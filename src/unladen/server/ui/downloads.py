"""Downloads that outlive the page that asked for them, and the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.hub.browse import hub_ref
from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.supervisor.process import Worker
from unladen.server.ui.describing import problem
from unladen.server.ui.remembering import DownloadFile
from unladen.server.ui.shapes import Download

log = logging.getLogger("unladen.server")

AT_ONCE: Final = 2
"""Downloads that run at the same time; more would only share the connection."""
MOST: Final = 200
"""Downloads in the list."""
RATE_SECONDS: Final = 4.0
"""Seconds over which the rate is taken."""
TOLD_SECONDS: Final = 0.5
"""Seconds between two events on the progress of a download."""


class _Under:
    """A download, with the process that runs it."""

    def __init__(self, shown: Download, parts: list[str]) -> None:
        self.shown, self.parts = shown, parts
        self.worker: Worker | None = None
        self.is_taken = False
        """Whether a process for it is about to start, or hasn't ended."""
        self.told = 0.0
        self.got: deque[tuple[float, int]] = deque()

    def arrived(self, done: int) -> None:
        """There are ``done`` bytes now."""
        now = time.monotonic()
        self.got.append((now, done))
        while now - self.got[0][0] > RATE_SECONDS:
            self.got.popleft()
        seconds = now - self.got[0][0]
        self.shown["done"] = done
        self.shown["rate"] = max(0.0, (done - self.got[0][1]) / seconds) if seconds > 0 else 0.0


class DownloadQueue:
    """The downloads of a server.

    * ``tell``: gets a download that changed, and whether its state did or only its progress.
    * ``arrived``: called when a model is complete.
    * ``remembered``: keeps them beyond the server's life.
    """

    def __init__(self, tell: Callable[[Any, bool], None], arrived: Callable[[], None],
                 remembered: DownloadFile) -> None:
        self._tell, self._arrived, self._remembered = tell, arrived, remembered
        self._every: dict[str, _Under] = {}
        self._ends: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def begin(self) -> None:
        """Go on with the downloads of the last server."""
        for shown, parts in self._remembered.read():
            if shown["state"] == "running":
                shown["state"] = "queued"
            self._every[shown["id"]] = _Under(shown, parts)
        self._start_next()

    async def close(self) -> None:
        """End the processes. The next server goes on with what they did."""
        self._is_closed = True
        self._save()
        for each in self._every.values():
            if each.worker is not None:
                each.worker.kill("the server shuts down")
        if self._ends:
            await asyncio.wait(self._ends)
        self._remembered.close()

    def shown(self) -> list[Download]:
        """All downloads."""
        return [each.shown for each in self._every.values()]

    def add(self, ref: str) -> Download:
        """Begin a download, or go on with the one of the same name. Raises a ``Fault``."""
        try:
            hub_ref(ref)
        except InvalidArgument as error:
            raise Fault("bad_request", error.message, hint=error.hint, param="ref") from None
        for each in self._every.values():
            if each.shown["ref"] == ref:
                if each.shown["state"] in ("paused", "failed", "done"):
                    self._queue(each)
                return each.shown
        if len(self._every) >= MOST:
            raise Fault("full", f"there are {MOST} downloads in the list",
                        hint="delete some that are done", retry_after=1)
        under = _Under(Download(id=secrets.token_hex(6), ref=ref, state="queued", done=0, total=0,
                                rate=0.0, error=None, created=time.time()), [])
        self._every[under.shown["id"]] = under
        self._queue(under)
        return under.shown

    def pause(self, number: str) -> Download:
        """Stop a download; its bytes stay. Raises a ``Fault``."""
        under = self._found(number)
        if under.shown["state"] in ("queued", "running"):
            self._change(under, "paused")
            if under.worker is not None:
                under.worker.kill("it was paused")
        return under.shown

    def resume(self, number: str) -> Download:
        """Go on with a download. Raises a ``Fault``."""
        under = self._found(number)
        if under.shown["state"] in ("paused", "failed"):
            self._queue(under)
        return under.shown

    async def delete(self, number: str) -> None:
        """Forget a download, and remove the bytes of one that isn't done. Raises a ``Fault``."""
        under = self._found(number)
        del self._every[number]
        if under.worker is not None:
            under.worker.kill("it was deleted")
            await asyncio.shield(under.worker.gone)
        if under.shown["state"] != "done":
            for part in under.parts:
                with contextlib.suppress(FileNotFoundError):
                    Path(part).unlink()
        self._save()
        self._tell({"id": number, "state": "deleted"}, True)
        self._start_next()

    def _found(self, number: str) -> _Under:
        if number not in self._every:
            raise Fault("not_found", f"there is no download {number[:100]!r}",
                        hint="GET /ui/api/downloads lists them")
        return self._every[number]

    def _queue(self, under: _Under) -> None:
        under.shown["error"] = None
        self._change(under, "queued")
        self._start_next()

    def _change(self, under: _Under, state: Any) -> None:
        under.shown["state"] = state
        under.shown["rate"] = 0.0
        under.got.clear()
        self._save()
        self._tell(dict(under.shown), True)

    def _save(self) -> None:
        self._remembered.write([(each.shown, each.parts) for each in self._every.values()])

    def _start_next(self) -> None:
        """Start what waits, as far as others leave room. A process that was told to end counts
        until it has."""
        n_running = sum(each.is_taken for each in self._every.values())
        for each in self._every.values():
            if self._is_closed or n_running >= AT_ONCE:
                return
            if each.shown["state"] == "queued" and not each.is_taken:
                n_running += 1
                each.is_taken = True
                self._change(each, "running")
                task = asyncio.ensure_future(self._run(each))
                self._ends.add(task)
                task.add_done_callback(self._ends.discard)

    async def _run(self, under: _Under) -> None:
        ended: asyncio.Future[Fault | None] = asyncio.get_running_loop().create_future()

        def handle(message: Message) -> None:
            kind, *content = message
            if kind == "size":
                under.shown["total"], under.shown["done"], under.parts = content
                self._save()
            elif kind == "got":
                under.arrived(content[0])
            elif not ended.done():
                ended.set_result(Fault.unpack(content[0]) if kind == "failed" else None)
            if kind in ("size", "got") and time.monotonic() - under.told > TOLD_SECONDS:
                under.told = time.monotonic()
                self._tell(dict(under.shown), False)

        try:
            worker = await Worker.start(["download", under.shown["ref"]], handle)
            under.worker = worker
            if not self._is_wanted(under):
                worker.kill("it isn't wanted any more")
            await asyncio.wait((ended, worker.gone), return_when=asyncio.FIRST_COMPLETED)
            worker.kill("the download has ended")
            why = await worker.gone
        except OSError as error:
            why = f"it can't be started: {error.strerror}"
        under.worker, under.is_taken = None, False
        if self._is_wanted(under):
            self._end(under, ended.result() if ended.done() else Fault(
                "worker_lost", f"the process that downloads {under.shown['ref']} died: {why}",
                hint="resume it"))
        self._start_next()

    def _is_wanted(self, under: _Under) -> bool:
        return (under.shown["state"] == "running" and under.shown["id"] in self._every
                and not self._is_closed)

    def _end(self, under: _Under, fault: Fault | None) -> None:
        ref = under.shown["ref"]
        if fault is not None:
            log.error("%s isn't downloaded: %s", ref, fault)
            under.shown["error"] = problem(fault)
            self._change(under, "failed")
            return
        log.info("%s is downloaded", ref)
        under.shown["done"] = under.shown["total"]
        under.parts = []
        self._change(under, "done")
        self._arrived()

