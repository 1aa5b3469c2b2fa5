"""Several models share the memory: they make room for one another, and keep conversations."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from server.hosting import (
    CHAT,
    LONG,
    TINY,
    asked,
    hello,
    hosting,
    run,
    soon,
    story,
    text_of,
    workers,
)
from unladen.server.asked import Chat
from unladen.server.core import Wish
from unladen.server.events import Ended
from unladen.server.faults import Fault
from unladen.server.settings import ModelSettings
from unladen.server.supervisor import looking
from unladen.server.supervisor.hosted import Hosted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_small_models_are_loaded_side_by_side() -> None:
    async def test() -> None:
        async with hosting(TINY, CHAT, memory_share=1.0) as core:
            both = await asyncio.gather(asked(core, "tiny", story(max_tokens=4)),
                                        asked(core, "small", hello(max_tokens=4)))
            assert all(map(text_of, both))
            assert [card.state for card in core.cards()] == ["ready", "ready"]
            assert len(workers()) == 2
    run(test)


def test_the_least_recently_used_model_makes_room_once_its_requests_have_ended() -> None:
    async def test() -> None:
        third = ModelSettings("third", "tiny", options=TINY.options)
        async with hosting(TINY, CHAT, third, max_loaded=2, memory_share=1.0) as core:
            await core.load("tiny")
            await core.load("tiny-chat")
            async with core.answer("tiny", story(**LONG)) as events:
                await anext(events)
                await core.load("third")  # tiny-chat goes, though tiny is the older one: it is busy
                assert [card.state for card in core.cards()] == ["ready", "unloaded", "ready"]
                assert isinstance([event async for event in events][-1], Ended)
            assert text_of(await asked(core, "small", hello(max_tokens=4)))
            assert [card.state for card in core.cards()].count("ready") == 2
            assert not any(card.n_restarts for card in core.cards())
    run(test)


def test_a_model_that_doesnt_fit_beside_others_takes_their_place() -> None:
    async def test() -> None:
        # No device has all of its memory free, so with this share nothing fits beside another.
        async with hosting(TINY, CHAT, memory_share=0.0) as core:
            await core.load("tiny")
            await core.load("tiny-chat")
            assert [card.state for card in core.cards()] == ["unloaded", "ready"]
    run(test)


def test_requests_for_two_models_take_turns_where_one_fits() -> None:
    async def test() -> None:
        async with hosting(TINY, CHAT, max_loaded=1) as core:
            answers = await asyncio.gather(*(
                asked(core, *which) for _ in range(2)
                for which in (("tiny", story(max_tokens=3)), ("small", hello(max_tokens=3)))))
            assert all(map(text_of, answers))
            assert len(workers()) == 1
    run(test)


@pytest.mark.parametrize("why", ["another", "idle"])
def test_a_conversation_survives_that_its_model_is_unloaded(why: str) -> None:
    async def test() -> None:
        async with hosting(TINY, CHAT, max_loaded=1) as core:
            question = Chat(messages=[{"role": "user", "content": "Tell me of the sea. " * 20}],
                            parameters={"temperature": 0.0, "max_tokens": 8})
            wish = Wish(keep_alive=0 if why == "idle" else None)
            before = await asked(core, "small", question, wish)
            if why == "another":
                await core.load("tiny")
            await soon(lambda: core.cards()[1].state == "unloaded")
            after = await asked(core, "small", question)
            first, last = before[-1], after[-1]
            assert isinstance(first, Ended)
            assert isinstance(last, Ended)
            assert last.load_s > 0
            assert first.n_cached == 0
            assert last.n_cached > 0.8 * last.n_prompt
            assert text_of(after) == text_of(before)
    run(test)


def test_cards_tell_of_models_that_arent_loaded() -> None:
    async def test() -> None:
        async with hosting(CHAT, TINY) as core:
            first, second = core.cards()
            assert (first.state, second.state) == ("unloaded", "unloaded")
            assert first.arch == second.arch == "llama"
            assert {"chat", "tools"} <= first.can
            assert "chat" not in second.can
            assert first.context_size == first.trained_context == 1024
            assert first.template
            assert first.metadata["general.architecture"] == "llama"
            assert "tokenizer.ggml.tokens" not in first.metadata
            assert first.n_bytes == os.path.getsize(first.path)
            assert len(first.digest) == len(second.digest) == 64
            assert first.digest != second.digest
    run(test)


def test_a_file_that_cant_be_read_is_looked_at_once(tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    n_looks = 0
    inspected = looking.inspected

    async def counted(models: Sequence[Hosted], memory_share: float
                      ) -> list[dict[str, Any] | Fault]:
        nonlocal n_looks
        n_looks += 1
        return await inspected(models, memory_share)

    async def test() -> None:
        path = tmp_path / "broken.gguf"
        path.write_bytes(b"GGUF, but no more")
        async with hosting(ModelSettings("broken", str(path))) as core:
            first = await core.card("broken")
            assert first.error
            assert (await core.card("broken")).error == first.error
            assert n_looks == 1
            path.write_bytes(b"another one that is broken")
            assert (await core.card("broken")).error
            assert n_looks == 2

    monkeypatch.setattr(looking, "inspected", counted)
    run(test)


def test_a_look_survives_that_the_machine_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = 0.0

    async def test() -> None:
        nonlocal jump
        loop = asyncio.get_running_loop()
        real = loop.time
        async with hosting(TINY) as core:
            monkeypatch.setattr(loop, "time", lambda: real() + jump)
            look = asyncio.ensure_future(looking.inspected([*core._models.values()], 1.0))
            await asyncio.sleep(0.05)
            jump = looking.LOOK_BEATS + 10.0
            found, = await look
            assert not isinstance(found, Fault), found

    run(test)


def test_other_models_are_found_by_reference_and_never_by_path(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "other.gguf"
        file.write_bytes(b"GGUF")
        async with hosting(CHAT, allow_any=True) as core:
            for name in (str(file), "../other.gguf", "other.gguf", "nobody/has-this", "\0", "~/x",
                         "tiny/../../x"):
                with pytest.raises(Fault) as caught:
                    await core.card(name)
                assert caught.value.kind == "unknown_model"
            assert (await core.card("tiny")).state == "unloaded"
            assert text_of(await asked(core, "tiny", story(max_tokens=3)))
        async with hosting(CHAT) as core:
            with pytest.raises(Fault, match="there is no model"):
                await core.card("tiny")
    run(test)


def test_nothing_is_left_open() -> None:
    def n_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def test() -> None:
        counts = [n_open()]
        for _ in range(2):
            async with hosting(TINY, CHAT, max_loaded=1) as core:
                await asked(core, "tiny", story(max_tokens=2))
                async with core.answer("small", hello()) as events:
                    await anext(events)
            assert workers() == []
            await asyncio.sleep(0)
            counts.append(n_open())
        assert counts[1] == counts[2] <= counts[0] + 1  # asyncio may keep one for its signals
    run(test)
