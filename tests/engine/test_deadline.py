"""Deadlines that pass while a request waits, while it runs, or while its text isn't read."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from engine.conftest import EXACT, Load, check_idle
from engine.trouble import Acts
from unladen import Model, SamplerChain
from unladen.api.stream import Stream
from unladen.errors import DeadlineExceeded, InvalidArgument, QueueFull

GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
LONG = 1e6
"""Seconds until a deadline that no test reaches."""


@pytest.fixture
def model(load: Load) -> Model:
    return load(**EXACT)


def pass_deadline(stream: Stream) -> None:
    stream._request.deadline = time.monotonic()


def test_before_anything_runs(model: Model) -> None:
    with pytest.raises(DeadlineExceeded, match="before the first token"):
        model.generate([5, 6], deadline=0)
    with pytest.raises(TimeoutError):
        model.stream([5, 6], deadline=0.0).__next__()
    with pytest.raises(DeadlineExceeded, match=r"prompt\[0\]"):
        model.generate([[5], [6]], deadline=0)
    with pytest.raises(DeadlineExceeded):
        asyncio.run(model.agenerate([5, 6], deadline=0))
    check_idle(model)


def test_long_enough(model: Model) -> None:
    assert model.generate([5, 6], max_tokens=5, deadline=LONG, **GREEDY).stop_reason == "length"


def test_while_it_runs(model: Model) -> None:
    """No real clock: the step itself lets the deadline pass at its third token."""
    expected = model.generate([5, 6], max_tokens=3, **GREEDY)
    other = model.stream([7, 8], max_tokens=9, **GREEDY)
    chain = SamplerChain().step(Acts(2, lambda _: pass_deadline(stream))).greedy()
    stream = model.stream([5, 6], max_tokens=50, sampler=chain, deadline=LONG)
    text = "".join(stream)
    assert stream.result.stop_reason == "deadline" and text == stream.result.text
    assert stream.result.tokens == expected.tokens
    assert len("".join(other)) >= 0 and other.result.stop_reason == "length"
    check_idle(model)


def test_while_a_prompt_is_read(load: Load) -> None:
    model = load(**EXACT, batch_size=8)
    stream = model.stream([5] * 100, deadline=LONG, **GREEDY)
    run, plan = model.engine.plan.run, model.engine.plan

    def late() -> None:
        run()
        pass_deadline(stream)
    plan.run = late  # type: ignore[method-assign]
    with pytest.raises(DeadlineExceeded):
        next(stream)
    plan.run = run  # type: ignore[method-assign]
    check_idle(model)


def test_while_it_waits(load: Load) -> None:
    """The only place is taken, so the request waits; it leaves the queue at its deadline."""
    model = load(**EXACT, max_seqs=1)
    first = model.stream([5, 6], max_tokens=20, **GREEDY)
    second = model.stream([7, 8], deadline=LONG, **GREEDY)
    next(first)
    # The queue looks for late requests once the first of their deadlines has passed.
    pass_deadline(second)
    model.engine._admission.waiting._next_deadline = time.monotonic()
    next(first)
    assert isinstance(second._request.error, DeadlineExceeded)
    assert not model.engine._admission.waiting
    list(first)
    with pytest.raises(DeadlineExceeded):
        next(second)
    check_idle(model)


def test_while_nobody_reads(model: Model) -> None:
    """A slow consumer's request keeps its blocks no longer than its deadline, if other callers run
    steps."""
    slow = model.stream([5] * 40, deadline=LONG, **GREEDY)
    first = next(slow)
    pass_deadline(slow)
    model.generate([7, 8], max_tokens=3, **GREEDY)
    check_idle(model)
    rest = "".join(slow)
    assert slow.result.stop_reason == "deadline" and slow.result.text == first + rest
    assert slow.result.tokens


def test_while_nobody_reads_and_nobody_else_steps(model: Model) -> None:
    slow = model.stream([5] * 40, deadline=LONG, **GREEDY)
    next(slow)
    pass_deadline(slow)
    n = len(slow.result.tokens)
    list(slow)
    assert slow.result.stop_reason == "deadline" and len(slow.result.tokens) <= n + 1
    check_idle(model)


def test_logits_have_no_half_result(model: Model) -> None:
    from unladen.engine import Request
    from unladen.tokenizer import StreamDecoder
    request = Request([5] * 9, sampler=None, decoder=StreamDecoder(model.tokenizer), deadline=0.0)
    model.engine.submit(request)
    model.engine.finish(request)
    assert isinstance(request.error, DeadlineExceeded)
    check_idle(model)


def test_a_session_keeps_what_was_written(model: Model) -> None:
    session = model.session([5, 6])
    chain = SamplerChain().step(Acts(2, lambda _: pass_deadline(stream))).greedy()
    stream = session.stream(max_tokens=50, sampler=chain, deadline=LONG)
    list(stream)
    assert session.tokens == [5, 6, *stream.result.tokens]
    before = session.tokens
    with pytest.raises(DeadlineExceeded):
        session.generate([7], deadline=0)
    assert session.tokens == before
    session.close()
    check_idle(model)


def test_the_queue_is_full(load: Load) -> None:
    """One request runs, two wait, and more are refused until there is room again."""
    model = load(**EXACT, max_seqs=1, max_queue=2)
    streams = [model.stream([5, i], max_tokens=6, **GREEDY) for i in (3, 4, 5)]
    session = model.session([5])
    for call in (lambda: model.generate([5]), lambda: model.stream([5]),
                 lambda: asyncio.run(model.agenerate([5])), lambda: model.logits([5]),
                 lambda: session.generate([6])):
        with pytest.raises(QueueFull, match=r"3 requests wait.*max_queue"):
            call()
    assert session.tokens == [5], "nothing was taken"
    list(streams[0])
    assert streams[0].result.stop_reason == "length"
    assert model.generate([5], max_tokens=1, **GREEDY).tokens
    for stream in streams:
        list(stream)
        assert stream.result.stop_reason == "length"
    assert session.generate([6], max_tokens=1, **GREEDY).tokens
    session.close()
    check_idle(model)


def test_a_list_waits_for_room_in_the_queue(load: Load) -> None:
    """Only requests under way count, so a list of any length goes through a short queue."""
    model = load(**EXACT, max_seqs=2, max_queue=1)
    expected = [load(**EXACT).generate([5, i], max_tokens=3, **GREEDY).tokens for i in range(3, 12)]
    got = model.generate([[5, i] for i in range(3, 12)], max_tokens=3, **GREEDY)
    assert [each.tokens for each in got] == expected
    check_idle(model)


def test_priorities_decide_who_is_begun(load: Load) -> None:
    model = load(**EXACT, max_seqs=1)
    streams = {p: model.stream([5, 6 + p], max_tokens=4, priority=p, **GREEDY) for p in (0, 2, 1)}
    order: list[int] = []
    while len(order) < 3:
        model.engine.step()
        order += [p for p, s in streams.items() if s._request.done and p not in order]
    assert order == [2, 1, 0]
    check_idle(model)


@pytest.mark.parametrize("wrong", [{"priority": "high"}, {"priority": 1.5}, {"deadline": -1},
                                   {"deadline": "soon"}, {"deadline": float("nan")}])
def test_bad_wishes(model: Model, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        model.generate([5], **wrong)
