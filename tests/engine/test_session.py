"""Conversations that go on where they were, fork, and give way to others."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from engine.trouble import Acts, Picks, Trouble, raises
from tiny_model import N_VOCAB
from unladen import Model, SamplerChain
from unladen.api import Session
from unladen.cache.blocks import n_same
from unladen.errors import ContextOverflow, InvalidArgument

GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
SEEDED: dict[str, Any] = {"temperature": 1.5, "seed": 5, "ignore_eos": True}


@pytest.fixture
def model(load: Load) -> Model:
    return load(**EXACT)


def ids(rng: np.random.Generator, n: int) -> list[int]:
    found: list[int] = rng.integers(3, N_VOCAB, n).tolist()
    return found


@pytest.mark.parametrize("wishes", [GREEDY, SEEDED])
def test_turns_are_those_of_the_whole_text(load: Load, model: Model, rng: np.random.Generator,
                                           wishes: dict[str, Any]) -> None:
    fresh, text = load(**EXACT), []
    with model.session() as session:
        for n in (37, 5, 0, 20):
            new, before = ids(rng, n), len(text)
            text += new
            answer = session.generate(new or None, max_tokens=7, **wishes)
            expected = fresh.generate(text, max_tokens=7, **wishes)
            assert (answer.tokens, answer.text) == (expected.tokens, expected.text)
            # The last token was chosen and not computed.
            assert answer.usage.n_cached == max(0, before - 1)
            text += answer.tokens
            assert session.tokens == text
    check_idle(model)


def test_text_goes_on_as_text(model: Model) -> None:
    session = model.session("ab")
    session.append("ab c")
    assert session.tokens == [*model.tokenize("ab"), *model.tokenize("ab c", continues=True)]
    session.append([7, 8])
    assert session.tokens[-2:] == [7, 8]
    for bad in ([N_VOCAB], 5, ["a", "b"], b"ab"):
        with pytest.raises(InvalidArgument):
            session.generate(bad, max_tokens=1)  # type: ignore[arg-type]


def test_forks(load: Load, model: Model, rng: np.random.Generator) -> None:
    """Each fork goes on as if it was alone, on shared blocks."""
    fresh, start = load(**EXACT), ids(rng, 45)
    session = model.session(start)
    first = session.generate(max_tokens=6, **GREEDY)
    n_free = model.engine.pool.n_available
    forks = [session.fork() for _ in range(3)]
    assert model.engine.pool.n_available == n_free, "a fork costs nothing"
    past = [*start, *first.tokens]
    news = [ids(rng, n) for n in (1, 9, 40)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(
            lambda pair: pair[0].generate(pair[1], max_tokens=9, **GREEDY),
            zip(forks, news, strict=True)))
    for fork, new, answer in zip(forks, news, answers, strict=True):
        assert answer.tokens == fresh.generate([*past, *new], max_tokens=9, **GREEDY).tokens
        assert answer.usage.n_cached == len(past) - 1
        assert fork.tokens == [*past, *new, *answer.tokens]
    assert session.tokens == past
    again = session.generate(max_tokens=9, **GREEDY)
    assert again.tokens == fresh.generate(past, max_tokens=9, **GREEDY).tokens
    for each in (session, *forks):
        each.close()
    check_idle(model)


def test_a_fork_before_anything_is_computed(model: Model) -> None:
    session = model.session([5, 6])
    with session.fork() as fork:
        assert fork.generate(max_tokens=3, **GREEDY).tokens == session.generate(
            max_tokens=3, **GREEDY).tokens
    session.close()
    check_idle(model)


def test_an_end_token_at_once(model: Model) -> None:
    """All tokens are in the cache: the last one is computed once more."""
    expected = model.generate([5] * 40, max_tokens=3, **GREEDY).tokens
    session = model.session([5] * 40)
    eos = next(iter(model.tokenizer.eog_ids))
    ends = SamplerChain().step(Picks(0, eos))
    assert session.generate(sampler=ends).stop_reason == "eos"
    assert session.tokens == [5] * 40
    answer = session.generate(max_tokens=3, **GREEDY)
    assert answer.tokens == expected and answer.usage.n_cached == 39
    session.close()
    check_idle(model)


def test_an_error_leaves_it_as_it_was(model: Model) -> None:
    session = model.session([5, 6, 7])
    first = session.generate(max_tokens=4, **GREEDY)
    before = session.tokens
    fails = SamplerChain().step(Acts(2, raises())).greedy()
    with pytest.raises(Trouble):
        session.generate([9, 9], max_tokens=9, sampler=fails)
    assert session.tokens == before == [5, 6, 7, *first.tokens]
    with pytest.raises(ContextOverflow):
        session.generate([9] * 500)
    assert session.tokens == before
    expected = model.generate(before, max_tokens=4, **GREEDY)
    assert session.generate(max_tokens=4, **GREEDY).tokens == expected.tokens
    session.close()
    check_idle(model)


def test_what_a_stream_wrote_stays(model: Model) -> None:
    session = model.session([5, 6])
    with session.stream([7], max_tokens=50, **GREEDY) as stream:
        for _ in range(3):
            next(stream)
    assert stream.result.stop_reason == "cancelled"
    assert session.tokens == [5, 6, 7, *stream.result.tokens]
    expected = model.generate(session.tokens, max_tokens=4, **GREEDY).tokens
    assert session.generate(max_tokens=4, **GREEDY).tokens == expected
    assert session.generate([8], max_tokens=0).tokens == [] and session.tokens[-1] == 8
    session.close()
    check_idle(model)


def test_one_at_a_time(model: Model) -> None:
    session = model.session([5, 6])
    stream = session.stream(max_tokens=20, **GREEDY)
    next(stream)
    assert "going on" in repr(session)
    for call in (session.fork, lambda: session.generate(max_tokens=1),
                 lambda: session.append([5])):
        with pytest.raises(InvalidArgument, match=r"writing.*fork"):
            call()
    list(stream)
    assert session.generate(max_tokens=1, **GREEDY).tokens
    assert "idle" in repr(session) and str(len(session.tokens)) in repr(session)
    session.close()
    check_idle(model)


def test_many_threads_want_one_session(load: Load, rng: np.random.Generator) -> None:
    """One thread at a time continues the session; its tokens are those of whole turns in a row."""
    model, prompt = load(**EXACT), ids(rng, 33)
    session = model.session(prompt)
    written: list[list[int]] = []
    barrier = threading.Barrier(6)

    def work() -> int:
        n_refused = 0
        barrier.wait()
        for _ in range(4):
            try:
                written.append(session.generate(max_tokens=2, **GREEDY).tokens)
            except InvalidArgument:
                n_refused += 1
        return n_refused
    with ThreadPoolExecutor(6) as pool:
        refused = sum(each.result() for each in [pool.submit(work) for _ in range(6)])
    assert len(written) + refused == 24 and written
    expected = load(**EXACT).generate(prompt, max_tokens=2 * len(written), **GREEDY).tokens
    assert session.tokens == [*prompt, *expected]
    assert sorted(map(tuple, written)) == sorted(
        zip(expected[::2], expected[1::2], strict=True))
    session.close()
    check_idle(model)


def test_others_take_its_memory(load: Load, rng: np.random.Generator) -> None:
    """A session gives its blocks up for requests, and is computed again later."""
    model, fresh = load(**EXACT, context_size=128, cache_tokens=192), load(**EXACT)
    sessions = [model.session(ids(rng, 50)) for _ in range(3)]
    texts = [s.tokens for s in sessions]
    for turn in range(3):
        for i, session in enumerate(sessions):
            answer = session.generate(max_tokens=5, **GREEDY)
            assert answer.tokens == fresh.generate(texts[i], max_tokens=5, **GREEDY).tokens
            texts[i] += answer.tokens
        long = ids(rng, 120)
        assert model.generate(long, max_tokens=4, **GREEDY).tokens == fresh.generate(
            long, max_tokens=4, **GREEDY).tokens, turn
    for session in sessions:
        session.close()
    check_idle(model)


def test_closed_and_dropped(model: Model) -> None:
    session, other = model.session([5] * 40), model.session([6] * 40)
    for each in (session, other):
        each.generate(max_tokens=3, **GREEDY)
    n_free = model.engine.pool.n_available
    session.close()
    session.close()
    assert model.engine.pool.n_available == n_free + 2 and "closed" in repr(session)
    for call in (session.fork, lambda: session.generate(max_tokens=1),
                 lambda: session.append([5])):
        with pytest.raises(InvalidArgument, match="closed"):
            call()
    stream = other.stream(max_tokens=100, **GREEDY)
    next(stream)
    other.close()
    list(stream)
    assert stream.result.stop_reason == "cancelled"
    third = model.session([7] * 40)
    third.generate(max_tokens=3, **GREEDY)
    del third
    gc.collect()
    check_idle(model)
    last = model.session([5])
    model.close()
    last.close()


def test_closed_from_inside_a_step(model: Model) -> None:
    session = model.session([5] * 40)
    session.generate(max_tokens=2, **GREEDY)
    chain = SamplerChain().step(Acts(1, lambda _: session.close())).greedy()
    model.generate([7], max_tokens=4, sampler=chain)
    check_idle(model)


def test_coroutines_and_cancelled_tasks(load: Load, rng: np.random.Generator) -> None:
    model, fresh = load(**EXACT), load(**EXACT)
    starts = [ids(rng, n) for n in (5, 40, 33)]

    async def talk(start: list[int]) -> Session:
        session = model.session(start)
        await session.agenerate(max_tokens=5, **GREEDY)
        text = "".join([piece async for piece in session.astream([9], max_tokens=5, **GREEDY)])
        assert text == model.detokenize(session.tokens[-5:])
        task = asyncio.create_task(session.agenerate(max_tokens=100, **GREEDY))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return session

    async def all_of_them() -> list[Session]:
        return await asyncio.gather(*map(talk, starts))
    for start, session in zip(starts, asyncio.run(all_of_them()), strict=True):
        model.generate([5], max_tokens=1)  # waits for the step of the cancelled task
        first = fresh.generate(start, max_tokens=5, **GREEDY).tokens
        second = fresh.generate([*start, *first, 9], max_tokens=105, **GREEDY).tokens
        written = session.tokens[len(start) + 6:]
        assert session.tokens[:len(start) + 6] == [*start, *first, 9]
        assert second[:len(written)] == written
        session.close()
    check_idle(model)


def test_while_the_model_moves_and_is_tapped(load: Load, rng: np.random.Generator) -> None:
    model, fresh = load(**EXACT), load(**EXACT)
    session, text = model.session(), ids(rng, 40)
    session.append(text)

    def goes_on() -> int:
        answer = session.generate(max_tokens=5, **GREEDY)
        assert answer.tokens == fresh.generate(text, max_tokens=5, **GREEDY).tokens
        text.extend(answer.tokens)
        return answer.usage.n_cached
    assert goes_on() == 0
    model.place(context_size=256)
    assert goes_on() == len(text) - 6, "the cache went along"
    with model.tap(["logits"]):
        assert goes_on() == 0, "a tap sees all rows"
    goes_on()
    model.place(context_size=96)
    assert goes_on() == 0, "a smaller cache is another one"
    session.close()
    check_idle(model)


def test_a_session_goes_back(load: Load, rng: np.random.Generator) -> None:
    """A session that was cut goes on from there; what a fork still holds is found again."""
    model, fresh, text = load(**EXACT), load(**EXACT), ids(rng, 90)
    with model.session(text) as session:
        text += session.generate(max_tokens=6, **GREEDY).tokens
        other = [*text[:30], *ids(rng, 9)]
        with session.fork():
            for tokens, n_least in ((other, 30), (text, 64)):
                session._state.rewind(tokens)
                n = n_same(tokens, text if tokens is other else other)
                assert session.tokens == tokens[:n]
                answer = session.generate(tokens[n:], max_tokens=6, **GREEDY)
                assert answer.tokens == fresh.generate(tokens, max_tokens=6, **GREEDY).tokens
                assert n_least <= answer.usage.n_cached < len(tokens)
    check_idle(model)
