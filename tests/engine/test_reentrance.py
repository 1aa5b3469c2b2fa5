"""Calls from inside a step by the thread that runs it: an error at once, never a hang."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from engine.conftest import Load, check_idle
from engine.trouble import DETERMINISTIC, Acts, Constraining
from unladen import Model, SamplerChain
from unladen.engine.turns import Turns
from unladen.errors import ReentrantCall

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12}


@pytest.fixture
def model(load: Load) -> Model:
    return load(**DETERMINISTIC, context_size=96)


def agenerate(model: Model) -> object:
    import asyncio
    return asyncio.run(model.agenerate([5], max_tokens=1))


CALLS: Mapping[str, Callable[[Model], object]] = {
    "generate": lambda m: m.generate([5], max_tokens=1), "logits": lambda m: m.logits([5, 6]),
    "stream": lambda m: list(m.stream([5], max_tokens=1)), "agenerate": agenerate,
    "place": lambda m: m.place(context_size=128), "save_state": lambda m: m.save_state([5] * 40),
    "close": lambda m: m.close()}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_from_a_step(model: Model, call: Callable[[Model], object]) -> None:
    """If the sampler step catches the error, the request goes on; else the error ends that
    request."""
    expected = model.generate([5, 6], **GREEDY).tokens
    other, errors = model.stream([7, 8], **GREEDY), []

    def catches(_: object) -> None:
        try:
            call(model)
        except ReentrantCall as error:
            errors.append(error)
    caught = SamplerChain().step(Acts(2, catches)).greedy()
    assert model.generate([5, 6], max_tokens=12, sampler=caught).tokens == expected
    assert len(errors) == 1 and "inside one of its own steps" in str(errors[0])
    through = SamplerChain().step(Acts(2, lambda _: call(model))).greedy()
    with pytest.raises(ReentrantCall):
        model.generate([5, 6], max_tokens=12, sampler=through)
    assert len(list(other)) > 0 and len(other.result.tokens) == 12
    assert model.generate([5, 6], **GREEDY).tokens == expected, "and the model isn't closed"
    check_idle(model)


def test_load_state_from_a_step(model: Model) -> None:
    state = model.save_state([5] * 40)
    chain = SamplerChain().step(Acts(0, lambda _: model.load_state(state))).greedy()
    with pytest.raises(ReentrantCall):
        model.generate([5], max_tokens=2, sampler=chain)
    assert model.load_state(state) == [5] * 40


def test_from_a_constraint(model: Model) -> None:
    def make() -> Constraining:
        return Constraining(1, lambda out: model.logits([5]))
    with pytest.raises(ReentrantCall):
        model.generate([5], max_tokens=4, sampler=SamplerChain().constraint(make).greedy())
    check_idle(model)


def test_streams_that_are_advanced_or_dropped(model: Model) -> None:
    """Cancelling is allowed anywhere: by a call, and by the finalizer of a dropped stream."""
    streams = [model.stream([5, i], max_tokens=50, temperature=0.0) for i in range(6, 9)]
    for stream in streams:
        next(stream)

    def act(_: object) -> None:
        streams.pop().close()
        streams.pop()
        gc.collect()
    chain = SamplerChain().step(Acts(1, act)).greedy()
    assert len(model.generate([9], max_tokens=4, sampler=chain).tokens) == 4
    last = model.stream([5, 9], max_tokens=50, temperature=0.0)
    ahead = SamplerChain().step(Acts(1, lambda _: list(last))).greedy()
    with pytest.raises(ReentrantCall):
        model.generate([9], max_tokens=4, sampler=ahead)
    last.close()
    list(model.stream([5], max_tokens=1))
    streams.pop().close()
    check_idle(model)


def test_progress_while_the_model_moves(load: Load) -> None:
    """``progress`` is called between two steps, while weights are loaded again."""
    is_moving, errors = False, []

    def progress(_: object) -> None:
        if is_moving:
            with pytest.raises(ReentrantCall) as caught:
                model.generate([5], max_tokens=1)
            errors.append(caught.value)
    model = load(**{**DETERMINISTIC, "devices": ["cpu", "cpu:1"]}, n_gpu_layers=0,
                 use_mmap=False, progress=progress)
    is_moving = True
    model.place(n_gpu_layers=2)
    is_moving = False
    assert errors
    assert len(model.generate([5], max_tokens=3, ignore_eos=True).tokens) == 3


@pytest.fixture
def alarm() -> Iterator[Callable[[Callable[[], object]], None]]:
    """What a signal handler is to do."""
    before = signal.getsignal(signal.SIGUSR1)

    def install(action: Callable[[], object]) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: action())
    yield install
    signal.signal(signal.SIGUSR1, before)


def test_from_a_signal_handler(model: Model, alarm: Callable[[Callable[[], object]], None]
                               ) -> None:
    """At any moment: a call inside a step is refused, a call between two steps is answered."""
    errors: list[BaseException] = []
    done: list[object] = []
    expected = model.generate([5, 6], **GREEDY).tokens

    def handler() -> None:
        try:
            done.append(model.generate([9], max_tokens=1).tokens)
        except ReentrantCall as error:
            errors.append(error)
    alarm(handler)
    in_step = SamplerChain().step(Acts(3, lambda _: signal.raise_signal(signal.SIGUSR1))).greedy()
    assert model.generate([5, 6], max_tokens=12, sampler=in_step).tokens == expected
    assert len(errors) == 1 and not done
    signal.raise_signal(signal.SIGUSR1)
    assert len(done) == 1
    main, running = threading.main_thread().ident, threading.Event()
    assert main is not None

    def keep_sending() -> None:
        while not running.wait(0.003):
            signal.pthread_kill(main, signal.SIGUSR1)
    thread = threading.Thread(target=keep_sending)
    thread.start()
    try:
        for _ in range(10):
            assert model.generate([5, 6], **GREEDY).tokens == expected
    finally:
        running.set()
        thread.join()
    check_idle(model)


def test_from_a_finalizer(model: Model) -> None:
    """The garbage collector may run a finalizer wherever memory is allocated."""
    class Finalized:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            try:
                model.generate([5], max_tokens=1)
            except ReentrantCall as error:
                errors.append(error)
    errors: list[BaseException] = []

    def act(_: object) -> None:
        Finalized()
        gc.collect()
    chain = SamplerChain().step(Acts(1, act)).greedy()
    assert len(model.generate([5], max_tokens=3, sampler=chain).tokens) == 3
    assert len(errors) == 1


def test_another_model_is_another_matter(load: Load) -> None:
    model, other = load(**DETERMINISTIC), load(**DETERMINISTIC)
    found: list[list[int]] = []
    chain = SamplerChain().step(Acts(1, lambda _: found.append(
        other.generate([5, 6], **GREEDY).tokens))).greedy()
    model.generate([5], max_tokens=3, sampler=chain)
    assert found == [other.generate([5, 6], **GREEDY).tokens]


def test_turns() -> None:
    turns = Turns()

    def inside() -> bool:
        assert turns.is_running and turns.is_mine
        with pytest.raises(ReentrantCall):
            turns.visit(inside)
        return turns.is_visited
    assert not turns.take(inside), "a visitor that was refused doesn't stay"
    assert turns.visit(inside)
    assert not turns.is_running and not turns.is_mine
    with pytest.raises(KeyError):
        turns.take(lambda: {}["x"])
    assert not turns.is_running
    turns.visit(lambda: None)
