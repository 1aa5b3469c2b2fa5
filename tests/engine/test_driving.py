"""A thread steps for many requests, as in a server; others cancel and wait, even during a step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from tiny_model import N_VOCAB
from unladen import Model, SamplerChain
from unladen.engine import Request
from unladen.errors import DeadlineExceeded
from unladen.tokenizer import StreamDecoder

GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
SOON = 30.0
"""Seconds after which a test gives up. What it waits for comes much sooner."""


def greedy(model: Model, prompt: Sequence[int], n: int, **wishes: Any) -> Request:
    return Request(prompt, sampler=SamplerChain().greedy().build(), max_tokens=n,
                   decoder=StreamDecoder(model.tokenizer), **wishes)


def submitted(model: Model, prompt: Sequence[int], n: int, **wishes: Any) -> Request:
    request = greedy(model, prompt, n, **wishes)
    model.engine.submit(request)
    return request


def news(model: Model, requests: Sequence[Request]) -> list[Request]:
    """Run steps until some of ``requests`` have text or are done, and return these."""
    while not (found := [r for r in requests if r.pieces or r.done]):
        model.engine.between_steps(model.engine.step)
    return found


class Watched:
    """The steps of a model: how many tokens each has, and what to do during it."""

    def __init__(self, model: Model) -> None:
        self.sizes: list[int] = []
        self.act: Callable[[int], object] = lambda n: None
        self._run, self._plan = model.engine.plan.run, model.engine.plan
        self._plan.run = self  # type: ignore[method-assign, assignment]

    def __call__(self) -> None:
        self.sizes.append(self._plan.batch.n_tokens)
        self.act(len(self.sizes))
        self._run()


@pytest.fixture
def held(load: Load) -> Iterator[tuple[Model, Request]]:
    """A model with room for one request. Another thread computes that request, and stays inside
    its second step until the test is over."""
    model = load(**EXACT, max_seqs=1)
    inside, go = threading.Event(), threading.Event()

    def hold(n: int) -> None:
        if n == 2:
            inside.set()
            go.wait(SOON)
    Watched(model).act = hold
    first = submitted(model, [5, 6], 4)
    thread = threading.Thread(target=model.engine.finish, args=(first,))
    thread.start()
    assert inside.wait(SOON)
    yield model, first
    go.set()
    thread.join()
    assert first.stop_reason == "length"
    check_idle(model)


def test_texts_are_those_of_each_alone(load: Load, rng: np.random.Generator) -> None:
    prompts = [rng.integers(3, N_VOCAB, int(n)).tolist() for n in rng.integers(1, 90, 12)]
    alone = load(**EXACT)
    expected = [alone.generate(p, max_tokens=10, **GREEDY).text for p in prompts]
    model = load(**EXACT, max_seqs=5, batch_size=24)
    waiting = [submitted(model, p, 10) for p in prompts]
    order = list(waiting)
    texts = {id(r): "" for r in waiting}
    while waiting:
        for request in news(model, waiting):
            texts[id(request)] += "".join(request.pieces)
            request.pieces.clear()
        assert not any(r.pieces for r in waiting)
        waiting = [r for r in waiting if not r.done]
    assert [texts[id(r)] for r in order] == expected
    check_idle(model)


def test_another_thread_runs_the_steps(load: Load) -> None:
    """Then this one takes its turns between those."""
    model = load(**EXACT)
    steps = Watched(model)
    began = threading.Event()
    steps.act = lambda n: began.set() if n == 2 else None
    thread = threading.Thread(target=lambda: model.generate([5, 6], max_tokens=150, **GREEDY))
    thread.start()
    assert began.wait(SOON)
    requests = [submitted(model, [7, i], 8) for i in range(3, 6)]
    texts = {id(r): "" for r in requests}
    waiting = list(requests)
    while waiting:
        for request in news(model, waiting):
            texts[id(request)] += "".join(request.pieces)
            request.pieces.clear()
        waiting = [r for r in waiting if not r.done]
    thread.join()
    for i, request in enumerate(requests, 3):
        assert texts[id(request)] == load(**EXACT).generate([7, i], max_tokens=8, **GREEDY).text
    check_idle(model)


@pytest.mark.parametrize("beside", [True, False])
def test_cancelled_while_its_prompt_is_read(load: Load, rng: np.random.Generator, beside: bool
                                            ) -> None:
    """Whether a stream runs beside it or not, nothing more of the prompt is computed."""
    model = load(kv_type="f32", context_size=4200, batch_size=64, step_seconds=None,
                 speculate=False)
    steps = Watched(model)
    streams = [submitted(model, [5, 6], 40)] if beside else []
    while streams and not streams[0].pieces:
        news(model, streams)
    n_before = len(steps.sizes)
    long = submitted(model, rng.integers(3, N_VOCAB, 4096).tolist(), 9)

    def cancel(n: int) -> None:
        if n == n_before + 4:
            thread = threading.Thread(target=model.engine.cancel, args=(long,))
            thread.start()
            thread.join()
    steps.act = cancel
    while not long.done:
        for request in news(model, [*streams, long]):
            request.pieces.clear()
    assert long.stop_reason == "cancelled" and len(steps.sizes) == n_before + 4
    for stream in streams:
        model.engine.finish(stream)
    assert all(n == 1 for n in steps.sizes[n_before + 4:]), steps.sizes
    check_idle(model)


def test_cancelled_in_the_queue_during_a_step(held: tuple[Model, Request]) -> None:
    model, _ = held
    queued, later = submitted(model, [7, 8], 9), submitted(model, [9], 1)
    assert list(model.engine._admission.waiting) == [queued, later]
    model.engine.cancel(queued)
    assert queued.stop_reason == "cancelled" and list(model.engine._admission.waiting) == [later]
    model.engine.cancel(queued)
    model.engine.cancel(later)
    assert not model.engine._admission.waiting


def test_late_in_the_queue_during_a_step(held: tuple[Model, Request]) -> None:
    model, _ = held
    queued = submitted(model, [7, 8], 9, deadline=time.monotonic() + 0.02)
    other = submitted(model, [9], 9, deadline=time.monotonic() + 0.02)
    model.engine.finish(queued)
    assert isinstance(queued.error, DeadlineExceeded)
    model.engine.finish(other)
    assert isinstance(other.error, DeadlineExceeded) and not model.engine._admission.waiting


def test_late_while_its_prompt_is_read(load: Load) -> None:
    """It ends with the step in which its deadline passes, while a stream goes on."""
    model = load(**EXACT, batch_size=8, speculate=False)
    steps = Watched(model)
    stream, long = submitted(model, [5, 6], 30), greedy(model, [7] * 150, 9)
    while not stream.pieces:
        news(model, [stream])
    stream.pieces.clear()
    model.engine.submit(long)
    n_before = len(steps.sizes)

    def late(n: int) -> None:
        if n == n_before + 3:
            long.deadline = time.monotonic()
    steps.act = late
    while long not in news(model, [stream, long]):
        stream.pieces.clear()
    assert isinstance(long.error, DeadlineExceeded) and len(steps.sizes) == n_before + 3
    model.engine.finish(stream)
    assert all(n == 1 for n in steps.sizes[n_before + 3:])
    check_idle(model)


def test_cancelled_as_it_leaves_the_queue(load: Load, rng: np.random.Generator) -> None:
    """Requests that other threads cancel at any moment end once, and leave nothing behind."""
    model = load(kv_type="f32", max_seqs=2)
    requests = [submitted(model, rng.integers(3, N_VOCAB, 5).tolist(), 6) for _ in range(60)]
    doomed = requests[1::2]
    thread = threading.Thread(target=lambda: [
        (model.engine.cancel(r), time.sleep(0.0005)) for r in doomed])
    thread.start()
    waiting = list(requests)
    while waiting:
        for request in news(model, waiting):
            request.pieces.clear()
        waiting = [r for r in waiting if not r.done]
    thread.join()
    assert all(r.stop_reason == "length" for r in requests[::2])
    assert all(r.stop_reason in ("cancelled", "length") and r.error is None for r in doomed)
    assert not model.engine._admission.waiting
    model.generate([5], max_tokens=1)
    check_idle(model)
