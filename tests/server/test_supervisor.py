"""The supervisor keeps answering, whatever happens to its workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

import pytest

from server.hosting import (
    CHAT,
    LONG,
    TINY,
    asked,
    flood,
    hello,
    hosting,
    run,
    soon,
    story,
    text_of,
    workers,
)
from unladen import Model
from unladen.server.asked import Text
from unladen.server.core import Caller, Wish
from unladen.server.events import Begun, Ended, Event, Piece, Waiting
from unladen.server.faults import Fault
from unladen.server.settings import ModelSettings
from unladen.server.supervisor import Supervisor, watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_an_answer_comes_in_its_order() -> None:
    async def test() -> None:
        async with hosting(CHAT) as core:
            assert core.cards()[0].state == "unloaded"
            events = await asked(core, "small", hello(max_tokens=12))
            kinds = [type(each) for each in events]
            begun = kinds.index(Begun)
            assert set(kinds[:begun]) == {Waiting}
            assert kinds[-1] is Ended
            assert set(kinds[begun + 1:-1]) == {Piece}
            end = events[-1]
            assert isinstance(end, Ended)
            assert core.cards()[0].state == "ready"
            with Model("tiny-chat", devices=["cpu"]) as model:
                whole = model.chat([{"role": "user", "content": "Hello!"}], temperature=0.0,
                                   max_tokens=12)
            assert text_of(events) == whole.message.content
            assert (end.n_prompt, end.n_completion) == (whole.usage.n_prompt,
                                                        whole.usage.n_completion)
            again = await asked(core, "", hello(max_tokens=12))
            assert type(again[0]) is Begun
            assert text_of(again) == text_of(events)
            assert isinstance(again[-1], Ended)
            assert again[-1].load_s == 0.0
    run(test)


def test_streams_run_together_and_a_cancel_ends_one_of_them() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            async def read(n: int | None) -> int:
                found = 0
                async with core.answer("tiny", story(**LONG)) as events:
                    async for event in events:
                        found += isinstance(event, Piece)
                        if n is not None and found >= n:
                            break
                return found

            counts = await asyncio.gather(read(3), read(None), read(5))
            assert counts[1] > 200
            await soon(lambda: core.cards()[0].running == 0)
            assert core.cards()[0].waiting == 0
    run(test)


def test_kill_9_of_a_worker_ends_its_streams_and_the_next_request_is_answered() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await core.load("tiny")
            pid, = workers()
            n_begun = 0
            all_begun = asyncio.Event()

            async def read() -> str:
                nonlocal n_begun
                try:
                    async with core.answer("tiny", flood(4)) as events:
                        async for event in events:
                            if isinstance(event, Piece):
                                n_begun += 1
                                break
                        all_begun.set() if n_begun == 8 else None
                        async for _ in events:
                            pass
                except Fault as fault:
                    return fault.kind
                return "whole"

            streams = [asyncio.ensure_future(read()) for _ in range(8)]
            await all_begun.wait()
            os.kill(pid, signal.SIGKILL)
            assert [await each for each in streams] == ["worker_lost"] * 8
            assert text_of(await asked(core, "tiny", story(max_tokens=4)))
            assert workers() != [pid]
            assert core.cards()[0].n_restarts == 1
    run(test)


def test_a_request_without_output_is_tried_once_more() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await core.load("tiny")
            pid, = workers()
            os.kill(pid, signal.SIGSTOP)  # so that nothing is answered
            waiting = asyncio.ensure_future(asked(core, "tiny", story(max_tokens=4)))
            await asyncio.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
            assert text_of(await waiting)
    run(test)


def test_a_worker_that_hangs_is_replaced() -> None:
    async def test() -> None:
        async with hosting(TINY, hang_s=2.0) as core:
            events: list[Event] = []

            async def read() -> None:
                async with core.answer("tiny", flood(32)) as answer:
                    async for event in answer:
                        events.append(event)
                        if isinstance(event, Piece) and len(events) < 20:
                            os.kill(workers()[0], signal.SIGSTOP)

            with pytest.raises(Fault) as caught:
                await read()
            assert caught.value.kind == "worker_lost"
            assert "hung" in caught.value.message
            assert text_of(await asked(core, "tiny", story(max_tokens=4)))
    run(test)


def test_a_worker_that_lives_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers every ping. A busy machine may stop it for longer than several of them."""
    monkeypatch.setattr(watch, "BEATS", 200)

    async def test() -> None:
        async with hosting(TINY, hang_s=20.0) as core:
            for _ in range(2):
                assert text_of(await asked(core, "tiny", story(**LONG)))
                await asyncio.sleep(0.3)  # time for several pings
            assert core.cards()[0].n_restarts == 0
    run(test)


def test_what_cant_be_loaded_says_why(tmp_path: object) -> None:
    async def test() -> None:
        bad = os.path.join(str(tmp_path), "bad.gguf")
        with open(bad, "wb") as file:
            file.write(b"GGUF and nothing more")
        async with hosting(ModelSettings("bad", bad), TINY) as core:
            with pytest.raises(Fault) as caught:
                await asked(core, "bad", story())
            assert caught.value.kind == "load_failed"
            card = core.cards()[0]
            assert card.state == "failed"
            assert "bad.gguf" in card.error
            with pytest.raises(Fault, match="there is no model"):
                await asked(core, "other", story())
            assert text_of(await asked(core, "tiny", story(max_tokens=4)))
    run(test)


def test_options_that_fit_no_memory_are_the_affair_of_those_who_ask_for_them() -> None:
    async def test() -> None:
        async with hosting(CHAT) as core:
            async def ask(**options: Any) -> str:
                try:
                    return text_of(await asked(core, "small", hello(max_tokens=3),
                                               Wish(options=options)))
                except Fault as fault:
                    return fault.kind

            huge = {"context_size": 10**9}
            first = await asyncio.gather(ask(**huge), ask(), ask(**huge), ask(context_size=200))
            assert first[0] == first[2] == "load_failed"
            assert first[1] == first[3] != "load_failed"
            assert first[1]
            await core.unload("small")
            assert await ask(**huge) == await ask(**huge) == "load_failed"
            assert core.cards()[0].state == "failed"
            assert await ask() == first[1]
            await core.unload("small")
            with pytest.raises(Fault, match="out of memory"):
                await core.load("small", Wish(options=huge))
            assert (await core.load("small")).state == "ready"
    run(test)


def test_wrong_requests_are_their_own_affair() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            good = asyncio.ensure_future(asked(core, "tiny", story(max_tokens=200)))
            for question, kind in (
                    (Text(prompt="a", parameters={"temperature": -1}), "bad_request"),
                    (Text(prompt="a " * 5000), "overflow"),
                    (Text(prompt=[10**6]), "bad_request"),
                    (Text(prompt="\ud800"), "bad_request"),
                    (Text(prompt="a", suffix="b"), "bad_request"),
                    (Text(prompt="a", parameters={"response_format": {
                        "type": "grammar", "grammar": "root ::= ("}}), "bad_request")):
                with pytest.raises(Fault) as caught:
                    await asked(core, "tiny", question)
                assert caught.value.kind == kind, question
                if kind == "overflow":
                    assert caught.value.n_tokens > caught.value.limit > 0
            assert text_of(await good)
            assert core.cards()[0].n_restarts == 0
    run(test)


def test_too_many_waiting_requests_are_refused() -> None:
    async def test() -> None:
        one = ModelSettings("tiny", "tiny", options={**TINY.options, "max_seqs": 1})
        async with hosting(one, max_waiting=2) as core:
            await core.load("tiny")
            tasks = [asyncio.ensure_future(asked(core, "tiny", story(**LONG))) for _ in range(6)]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            faults = [each.exception() for each in done if each.exception() is not None]
            assert faults
            assert all(isinstance(each, Fault) and each.kind == "full" and each.retry_after >= 1
                       for each in faults)
            await asyncio.wait(tasks)
            assert sum(each.exception() is None for each in tasks) == 3
    run(test)


def test_a_deadline_ends_a_request() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await core.load("tiny")
            events = await asked(core, "tiny", story(**LONG),
                                 Wish(Caller(priority=1), deadline=0.1))
            assert isinstance(events[-1], Ended)
            assert events[-1].reason in ("deadline", "length")
    run(test)


def test_keep_alive_unloads_a_model() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await asked(core, "tiny", story(max_tokens=2), Wish(keep_alive=0))
            await soon(lambda: core.cards()[0].state == "unloaded")
            assert workers() == []
            await asked(core, "tiny", story(max_tokens=2), Wish(keep_alive=-1))
            assert core.cards()[0].expires is None
            assert (await core.unload("tiny")).state == "unloaded"
            assert core.cards()[0].n_restarts == 0
    run(test)


def test_a_model_answers_after_an_unload_that_was_cancelled() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            has_begun = asyncio.Event()

            async def read() -> None:
                async with core.answer("tiny", story(**LONG)) as events:
                    async for event in events:
                        if isinstance(event, Piece):
                            has_begun.set()

            reading = asyncio.ensure_future(read())
            await has_begun.wait()
            unloading = asyncio.ensure_future(core.unload("tiny"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # now it waits for the long answer
            unloading.cancel()
            await asyncio.wait((unloading, reading))
            assert unloading.cancelled()
            assert reading.exception() is None
            assert text_of(await asked(core, "tiny", story(max_tokens=4)))
    run(test)


@pytest.mark.parametrize("waits", [True, False])
def test_a_load_that_comes_while_the_model_is_unloaded_loads_it_again(waits: bool) -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await core.load("tiny")
            pid, = workers()
            os.kill(pid, signal.SIGSTOP)  # so that the unload lasts
            running = asyncio.ensure_future(asked(core, "tiny", story(max_tokens=4)))
            await soon(lambda: core.cards()[0].waiting == 1)
            unloading = asyncio.ensure_future(core.unload("tiny"))
            await asyncio.sleep(0.05)
            load = core.load if waits else core.begin
            loading = asyncio.ensure_future(load("tiny", Wish(options={"context_size": 256})))
            await asyncio.sleep(0.05)
            assert loading.done() != waits
            os.kill(pid, signal.SIGCONT)
            assert text_of(await running)
            await unloading
            await loading
            await soon(lambda: core.cards()[0].state == "ready")
            card, = core.cards()
            assert (card.context_size, card.n_arrivals, card.n_restarts) == (256, 2, 0)
            assert pid not in workers()
            await core.unload("tiny")
            assert core.cards()[0].state == "unloaded"
            assert workers() == []
    run(test)


def test_the_last_of_unloads_and_loads_counts() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await core.load("tiny")
            pid, = workers()
            os.kill(pid, signal.SIGSTOP)
            running = asyncio.ensure_future(asked(core, "tiny", story(max_tokens=4)))
            await soon(lambda: core.cards()[0].waiting == 1)
            steps = []
            for step in (core.unload, core.load, core.unload):
                steps.append(asyncio.ensure_future(step("tiny")))
                await asyncio.sleep(0.05)
            os.kill(pid, signal.SIGCONT)
            assert text_of(await running)
            assert [(await each).state for each in steps] == ["unloaded"] * 3
            assert workers() == []
    run(test)


def test_draining_ends_what_takes_too_long() -> None:
    async def test() -> None:
        core = Supervisor(_settings())
        async with core:
            await core.known()
            await core.load("tiny")
            os.kill(workers()[0], signal.SIGSTOP)  # so that it lasts
            long = asyncio.ensure_future(asked(core, "tiny", story()))
            await soon(lambda: core.cards()[0].waiting == 1)
            await core.drain()
            with pytest.raises(Fault) as caught:
                await long
            assert caught.value.kind == "closing"
            with pytest.raises(Fault) as caught:
                await asked(core, "tiny", story())
            assert caught.value.kind == "closing"
            assert workers() == []
    run(test)


def _settings() -> object:
    from unladen.server.settings import Settings
    return Settings(models=(TINY,), drain_s=0.0)


def test_a_worker_that_dies_while_it_loads_is_tried_once_more() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            killed: set[int] = set()
            waiting = asyncio.ensure_future(asked(core, "tiny", story(max_tokens=2)))
            while not waiting.done():
                for pid in set(workers()) - killed:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.01)
            fault = waiting.exception()
            assert isinstance(fault, Fault)
            assert fault.kind == "load_failed"
            assert len(killed) == 2
            assert core.cards()[0].state == "failed"
            assert "signal 9" in fault.message
            while core.cards()[0].state != "ready":  # it is left alone for a moment
                with contextlib.suppress(Fault):
                    assert text_of(await asked(core, "tiny", story(max_tokens=2)))
                await asyncio.sleep(0.1)
            assert core.cards()[0].n_restarts == 2
    run(test)


def test_kill_9_while_a_model_waits_to_be_unloaded_ends_its_streams() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            await core.load("tiny")
            pid, = workers()
            os.kill(pid, signal.SIGSTOP)
            running = asyncio.ensure_future(asked(core, "tiny", story(max_tokens=4)))
            await soon(lambda: core.cards()[0].waiting == 1)
            leaving = asyncio.ensure_future(core.unload("tiny"))
            await asyncio.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
            assert text_of(await running)
            await leaving
    run(test)
