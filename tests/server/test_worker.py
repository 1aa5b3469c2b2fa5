"""A worker ends with its server, and tells errors as faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from server.hosting import PATIENCE, is_alive, until, workers
from unladen import Model
from unladen.errors import (
    ContextOverflow,
    DeadlineExceeded,
    InvalidArgument,
    QueueFull,
    TemplateError,
    UnsupportedModel,
)
from unladen.server.asked import Text
from unladen.server.faults import Fault
from unladen.server.worker.job import Job
from unladen.server.worker.loop import Loop
from unladen.server.worker.preparing import prepared
from unladen.server.worker.wrong import fault_of

SERVER = textwrap.dedent("""
    import asyncio, os, signal
    from server.hosting import TINY, LONG, story
    from unladen.server.settings import Settings
    from unladen.server.supervisor import Supervisor

    async def main():
        async with Supervisor(Settings(models=(TINY,))) as core:
            async with core.answer("tiny", story(**LONG)) as events:
                async for event in events:
                    if type(event).__name__ == "Piece":
                        print("streams", flush=True)
                        await asyncio.sleep(3600)
    asyncio.run(main())
    """)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("stopped", [False, True])
def test_no_worker_outlives_its_server(stopped: bool) -> None:
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([tests, *sys.path])
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": path})
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "streams\n"
        pid, = workers(server.pid)
        if stopped:  # then no thread of the worker can notice
            os.kill(pid, signal.SIGSTOP)
    finally:
        server.kill()
        server.communicate()
    until(lambda: not is_alive(pid), 10.0)


@pytest.mark.parametrize(("error", "kind", "param"), [
    (InvalidArgument("temperature must be at least 0, got -1"), "bad_request", "temperature"),
    (InvalidArgument("messages[2].content[0] is of kind 'image'"), "bad_request",
     "messages.2.content.0"),
    (InvalidArgument("the prompt has token id 5"), "bad_request", "prompt"),
    (InvalidArgument("something else is wrong"), "bad_request", ""),
    (TemplateError("roles must alternate", refused=True), "bad_request", "messages"),
    (DeadlineExceeded("late"), "deadline", ""), (QueueFull("full", n_waiting=3), "full", ""),
    (UnsupportedModel("unknown"), "unsupported", ""), (ValueError("a bug"), "internal", ""),
    (Fault("unsupported", "no"), "unsupported", "")])
def test_errors_become_faults(error: Exception, kind: str, param: str) -> None:
    fault = fault_of(error)
    assert (fault.kind, fault.param) == (kind, param)


def test_an_overflow_has_both_numbers() -> None:
    fault = fault_of(ContextOverflow("too long", n_tokens=7, limit=5, hint="shorten it"))
    assert (fault.kind, fault.n_tokens, fault.limit, fault.hint) == ("overflow", 7, 5,
                                                                      "shorten it")


class Told:
    """In place of the link: keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[list[object]] = []

    def send(self, messages: list[list[object]]) -> None:
        self.messages += messages


def test_a_cancel_takes_effect_within_a_step_wherever_the_request_is() -> None:
    with Model("tiny", devices=["cpu"], n_threads=1, max_seqs=1) as model:
        told = Told()
        loop = Loop(model, told)  # type: ignore[arg-type]  # a link to nobody
        question = Text(prompt="Once upon a time", parameters={"ignore_eos": True})
        for number in (1, 2, 3):
            loop.expect(number)
        jobs = [prepared(model, number, question, {})[1] for number in (1, 2, 3)]
        for job in jobs[:2]:
            assert job is not None
            loop.add(job)
        for _ in range(2):
            loop.turn()
        assert {1} == {m[1] for m in told.messages if m[0] == "started"}
        loop.cancel(1)  # under way
        loop.cancel(2)  # in the queue
        loop.cancel(3)  # not prepared yet
        assert jobs[2] is not None
        loop.add(jobs[2])
        told.messages.clear()
        loop.turn()
        model.engine.between_steps(lambda: None)
        # Tokens that were computed before are counted all the same.
        assert [each for each in told.messages if each[0] != "computed"] == []
        assert model.engine.n_needed == 1  # no request is left
        assert model.engine.pool.n_available == model.engine.pool.n_blocks


def test_a_cancel_within_a_step_leaves_no_blocks_held() -> None:
    """The last request is cancelled while its step runs: nobody asks for another step."""
    with Model("tiny", devices=["cpu"], n_threads=1) as model:
        loop = Loop(model, Told())  # type: ignore[arg-type]  # a link to nobody
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        for number in range(20):
            loop.expect(number)
            _, job = prepared(model, number, Text(prompt="Once upon a time", parameters={
                "ignore_eos": True}), {})
            assert job is not None
            loop.add(job)
            begun = loop.n_steps
            until(lambda begun=begun: loop.n_steps > begun + 1)  # type: ignore[misc]
            assert loop.blocks()[1] > 0
            loop.cancel(number)
            until(lambda: loop.blocks()[1] == 0)
        assert loop.blocks()[0] == model.engine.pool.n_blocks
        loop.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_an_error_of_one_job_is_its_own() -> None:
    class Broken(Job):
        def news(self, out: list[list[object]]) -> bool:
            raise ValueError("a bug")

        def cancel(self) -> None:
            pass

    with Model("tiny", devices=["cpu"], n_threads=1) as model:
        told = Told()
        loop = Loop(model, told)  # type: ignore[arg-type]  # a link to nobody
        for number in (1, 2):
            loop.expect(number)
        good = prepared(model, 1, Text(prompt="Once", parameters={"max_tokens": 2}), {})[1]
        assert good is not None
        loop.add(good)
        loop.add(Broken(2))
        for _ in range(10):
            loop.turn()
        assert [m[1] for m in told.messages if m[0] == "ended"] == [1]
        assert [m[1] for m in told.messages if m[0] == "failed"] == [2]
