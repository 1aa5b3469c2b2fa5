"""Runs the engine's steps for all jobs, and sends what each step brought."""

from __future__ import annotations

import os
import threading
import time
import traceback
from typing import TYPE_CHECKING

from unladen.errors import DeviceLost
from unladen.server.ipc import Message
from unladen.server.worker.job import Job, failed
from unladen.server.worker.keeping import Recent
from unladen.server.worker.wrong import fault_of

if TYPE_CHECKING:
    from unladen.api import Model
    from unladen.server.worker.link import Link

COUNT_SECONDS = 0.25
"""Seconds between two messages on how many tokens were computed; charts have a point a second."""
LOST = 5
"""The exit status of a worker that lost its device, or the memory of its plans."""


class Loop:
    """The jobs of ``model``. One thread calls :meth:`run`; the others add and cancel.

    :attr:`n_steps` grows with each step, so that a step that never ends is noticed.
    :attr:`recent` has the conversations of the last requests.
    """

    def __init__(self, model: Model, link: Link) -> None:
        self.model, self._link = model, link
        self._changed = threading.Condition()
        self._fresh: list[Job] = []
        self._jobs: dict[int, Job] = {}
        self._wanted: set[int] = set()
        self._is_over = self._is_to_tidy = False
        self.n_steps = 0
        self._counted, self._n_told = 0.0, (0, 0)
        self._n_ended = 0
        self.recent = Recent()

    def expect(self, id: int) -> None:  # noqa: A002
        """Note that job ``id`` is being prepared."""
        with self._changed:
            self._wanted.add(id)

    def add(self, job: Job) -> None:
        """Take a job that is prepared."""
        with self._changed:
            if job.id in self._wanted:
                self._fresh.append(job)
                self._changed.notify()
                return
        job.cancel()  # it was cancelled meanwhile

    def drop(self, id: int) -> None:  # noqa: A002
        """Note that job ``id`` has ended."""
        with self._changed:
            self._wanted.discard(id)
            self._leave(id)
            self.n_steps += 1  # that is progress, too

    def _leave(self, id: int) -> Job | None:  # noqa: A002
        """Take job ``id`` from those that run; its tokens still count."""
        job = self._jobs.pop(id, None)
        self._n_ended += 0 if job is None else job.n_written
        return job

    def cancel(self, id: int) -> None:  # noqa: A002
        """Stop job ``id``, wherever it is."""
        with self._changed:
            self._wanted.discard(id)
            job = self._leave(id)
            if job is None:
                job = next((each for each in self._fresh if each.id == id), None)
            self._fresh = [each for each in self._fresh if each.id != id]
        if job is None:
            return
        job.cancel()
        with self._changed:  # the next step gives the request's blocks back
            self._is_to_tidy = True
            self._changed.notify()

    @property
    def n_written(self) -> int:
        """Tokens that all jobs wrote, also those that have ended."""
        with self._changed:
            return self._n_ended + sum(job.n_written for job in self._jobs.values())

    def blocks(self) -> tuple[int, int]:
        """Blocks of the cache, and those that requests hold. Any thread may look: a number may be
        of a moment ago."""
        pool = self.model.engine.pool
        pools = (pool, *pool.windows)
        return sum(p.n_blocks for p in pools), sum(p.n_held for p in pools)

    def experts(self) -> tuple[int, int]:
        """Choices of experts in layers with a cache of experts, and those that the caches had. Any
        thread may look."""
        counts = self.model.expert_counts()
        return counts.n_chosen, counts.n_hits

    def stop(self) -> None:
        """Let :meth:`run` return after the present step."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def run(self) -> None:
        """Run steps as long as there are jobs, until :meth:`stop`."""
        while not self._is_over:
            with self._changed:
                while not (self._fresh or self._jobs or self._is_over or self._is_to_tidy):
                    self._changed.wait()
            self.turn()

    def turn(self) -> None:
        """Take new jobs, tell the news of all, and run a step for those that go on, or for what
        was cancelled."""
        with self._changed:
            self._jobs.update((job.id, job) for job in self._fresh)
            self._fresh.clear()
            is_to_tidy, self._is_to_tidy = self._is_to_tidy, False
        self._tell()
        if self._jobs or is_to_tidy:
            self._step()
        self._count()

    def _count(self) -> None:
        """Tell how many tokens were computed, not too often, and when the last job has ended."""
        now, tally = time.monotonic(), self.model.engine.tally
        n = tally.n_prefilled, tally.n_written
        if n != self._n_told and (not self._jobs or now - self._counted >= COUNT_SECONDS):
            self._link.send([["computed", n[0] - self._n_told[0], n[1] - self._n_told[1]]])
            self._counted, self._n_told = now, n

    def _tell(self) -> None:
        """Send the news of all jobs in one frame."""
        out: list[Message] = []
        for job in list(self._jobs.values()):
            try:
                is_done = job.news(out)
            except BaseException as error:  # noqa: BLE001  # it is this job's alone
                job.cancel()
                out.append(failed(job.id, fault_of(error)))
                is_done = True
            if is_done:
                self.drop(job.id)
                if tokens := job.tokens():
                    self.recent.add(tokens[:-1] or tokens)  # the last one was written, not computed
        if out:
            self._link.send(out)

    def _step(self) -> None:
        engine = self.model.engine
        try:
            engine.between_steps(engine.step)
        except DeviceLost:
            traceback.print_exc()
            os._exit(LOST)  # the server starts another worker
        except BaseException as error:  # noqa: BLE001  # no single request is to blame
            fault = fault_of(error)
            jobs = list(self._jobs.values())
            for job in jobs:
                job.cancel()
                self.drop(job.id)
            self._link.send([failed(job.id, fault) for job in jobs])
        self.n_steps += 1
