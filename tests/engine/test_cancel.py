"""Requests that are cancelled or interrupted leave nothing behind and don't affect others."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from tiny_model import N_VOCAB
from unladen.engine import engine as module

GREEDY = {"temperature": 0.0}


def test_cancel_before_the_first_step(load: Load) -> None:
    model = load(**EXACT)
    stream = model.stream([5, 6], **GREEDY)
    stream.close()
    assert list(stream) == []
    assert stream.result.stop_reason == "cancelled" and stream.result.tokens == []
    check_idle(model)


def test_cancel_in_the_middle(load: Load) -> None:
    model = load(**EXACT)
    expected = model.generate([5, 6], max_tokens=30, **GREEDY)
    with model.stream([5, 6], max_tokens=30, **GREEDY) as stream:
        next(stream)
    rest = "".join(stream)
    assert stream.result.stop_reason == "cancelled"
    tokens = stream.result.tokens
    assert expected.tokens[:len(tokens)] == tokens != expected.tokens
    # A character that was generated only in part differs from the one in the longer text.
    assert expected.text.startswith(stream.result.text.rstrip("\ufffd"))
    assert stream.result.text == model.detokenize(tokens) and stream.result.text.endswith(rest)
    check_idle(model)


def test_cancel_after_the_end(load: Load) -> None:
    model = load(**EXACT)
    stream = model.stream([5, 6], max_tokens=3, **GREEDY)
    list(stream)
    before = stream.result
    stream.close()
    assert stream.result == before and before.stop_reason == "length"


def test_dropping_a_stream_cancels_it(load: Load) -> None:
    model = load(**EXACT)
    for _ in model.stream([5, 6], **GREEDY):
        break
    check_idle(model)


def test_cancel_from_another_thread_in_the_middle_of_a_prompt(load: Load, rng: np.random.Generator
                                                              ) -> None:
    model = load(**EXACT, batch_size=4)
    prompt = rng.integers(3, N_VOCAB, 180).tolist()
    stream = model.stream(prompt, **GREEDY)
    other = model.stream(prompt[::-1], max_tokens=4, **GREEDY)
    started = threading.Event()
    run = model.engine.plan.run

    def watched() -> None:
        started.set()
        run()
    model.engine.plan.run = watched  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: (started.wait(), stream.close()))
    thread.start()
    assert list(stream) == [] and stream.result.stop_reason == "cancelled"
    thread.join()
    list(other)
    fresh = load(**EXACT).generate(prompt[::-1], max_tokens=4, **GREEDY)
    assert other.result.tokens == fresh.tokens
    check_idle(model)


def test_cancel_while_waiting_in_the_queue(load: Load) -> None:
    model = load(**EXACT, max_seqs=1)
    first = model.stream([5, 6], max_tokens=20, **GREEDY)
    second = model.stream([7, 8], max_tokens=20, **GREEDY)
    next(first)
    second.close()
    list(first)
    assert first.result.stop_reason == "length" and second.result.stop_reason == "cancelled"
    check_idle(model)



@pytest.fixture
def interrupt() -> Iterator[Callable[[float], threading.Timer]]:
    """Start a timer that raises KeyboardInterrupt in the main thread after so many seconds."""
    def raise_it(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def start(seconds: float) -> threading.Timer:
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGUSR1))
        timer.start()
        return timer
    before = signal.signal(signal.SIGUSR1, raise_it)
    yield start
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("options", [EXACT, {"kv_type": "f32"}])
def test_interrupts_at_any_moment(load: Load, rng: np.random.Generator,
                                  interrupt: Callable[[float], threading.Timer],
                                  options: dict[str, object]) -> None:
    """generate raises the interrupt; other requests and the cache aren't affected."""
    model = load(**options)
    prompts = [rng.integers(3, N_VOCAB, n).tolist() for n in (40, 70)]
    wanted = {"max_tokens": 20, **GREEDY}
    expected = [load(**options).generate(p, **wanted).tokens for p in prompts]
    n_interrupted = 0
    for _ in range(40):
        other = model.stream(prompts[1], **wanted)
        try:
            interrupt(rng.uniform(0.0001, 0.01))
            model.generate(prompts[0], max_tokens=140, **GREEDY)
            n_interrupted -= 1
            time.sleep(60)
        except KeyboardInterrupt:
            n_interrupted += 1
        list(other)
        assert other.result.stop_reason == "length"
        if options is EXACT:
            assert other.result.tokens == expected[1]
    assert n_interrupted > 0, "most of them hit the generation"
    if options is EXACT:
        assert model.generate(prompts[0], **wanted).tokens == expected[0]
    list(model.stream([5], max_tokens=1))
    check_idle(model)


@pytest.mark.parametrize("where", ["reserve", "commit", "attach", "release"])
def test_an_interrupt_inside_the_bookkeeping(load: Load, monkeypatch: pytest.MonkeyPatch,
                                             where: str) -> None:
    """An interrupt leaves a change to the cache half done: requests that go on are computed
    again."""
    model = load(**EXACT, context_size=96)
    prompts = [[5] * 40, [7] * 50]
    wanted = {"max_tokens": 20, **GREEDY}
    expected = [load(**EXACT).generate(p, **wanted).tokens for p in prompts]
    original = getattr(module.CachedSequence, where)
    calls = iter(range(10**6))

    def interrupted(self: object, *args: object) -> object:
        result = original(self, *args)
        if next(calls) == 1:
            raise KeyboardInterrupt
        return result
    streams = [model.stream(p, **wanted) for p in prompts]
    monkeypatch.setattr(module.CachedSequence, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.generate([11, 12], max_tokens=60, **GREEDY)
    for stream, tokens in zip(streams, expected, strict=True):
        list(stream)
        assert stream.result.tokens == tokens
    check_idle(model)


def test_a_failing_plan_fails_who_runs_it(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(**EXACT)
    expected = model.generate([7, 8], max_tokens=5, **GREEDY).tokens
    run, calls = model.engine.plan.run, iter(range(10**6))

    def failing() -> None:
        if next(calls) == 1:
            raise RuntimeError("the device is gone")
        run()
    monkeypatch.setattr(model.engine.plan, "run", failing)
    other = model.stream([7, 8], max_tokens=5, **GREEDY)
    with pytest.raises(RuntimeError, match="gone"):
        model.generate([5, 6], max_tokens=5)
    list(other)
    assert other.result.tokens == expected
    check_idle(model)
