"""Threads and coroutines share one engine, and its steps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from tiny_model import N_VOCAB
from unladen import Model

GREEDY = {"temperature": 0.0, "max_tokens": 24}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], list[int]]:
    """Watch a model: record the number of sequences of each step."""
    def watch(model: Model) -> list[int]:
        sizes: list[int] = []
        plan = model.engine.plan
        run = plan.run

        def counted() -> None:
            sizes.append(plan.batch.n_seqs)
            run()
        monkeypatch.setattr(plan, "run", counted)
        return sizes
    return watch


Watch = Callable[[Model], list[int]]


@pytest.fixture
def jobs(load: Load, rng: np.random.Generator) -> list[tuple[list[int], list[int]]]:
    """Ten prompts, and the result of each alone."""
    model = load(**EXACT)
    prompts = [rng.integers(3, N_VOCAB, int(n)).tolist() for n in rng.integers(1, 40, 10)]
    return [(p, model.generate(p, **GREEDY).tokens) for p in prompts]


Jobs = list[tuple[list[int], list[int]]]


def test_threads(load: Load, jobs: Jobs) -> None:
    model = load(**EXACT)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda job: model.generate(job[0], **GREEDY), jobs * 2))
    assert [r.tokens for r in results] == [tokens for _, tokens in jobs * 2]
    check_idle(model)


def test_streams_in_threads(load: Load, jobs: Jobs) -> None:
    model = load(**EXACT)

    def run(job: tuple[list[int], list[int]]) -> tuple[str, list[int]]:
        stream = model.stream(job[0], **GREEDY)
        return "".join(stream), stream.result.tokens
    with ThreadPoolExecutor(8) as pool:
        for (text, got), (_, tokens) in zip(pool.map(run, jobs), jobs, strict=True):
            assert got == tokens
            assert text == model.tokenizer.decode(tokens, at_start=False)
    check_idle(model)


def test_a_stream_flows_while_another_thread_generates(load: Load) -> None:
    """The thread that runs the steps delivers pieces of text to the other threads at once."""
    model = load(**EXACT)
    done = threading.Event()

    def generate() -> None:
        model.generate([5, 6], temperature=0.0, max_tokens=180)
        done.set()
    stream = model.stream([7, 8], temperature=0.0, max_tokens=20)
    thread = threading.Thread(target=generate)
    thread.start()
    seen = [done.is_set() for _ in stream]
    thread.join()
    assert not seen[0]


def test_coroutines_make_batches(load: Load, jobs: Jobs, steps: Watch) -> None:
    model = load(**EXACT, context_size=1024)
    sizes = steps(model)

    async def run() -> list[list[int]]:
        results = await asyncio.gather(*(model.agenerate(p, **GREEDY) for p, _ in jobs))
        return [r.tokens for r in results]
    assert asyncio.run(run()) == [tokens for _, tokens in jobs]
    assert max(sizes) == len(jobs)
    assert len(sizes) < sum(len(tokens) for _, tokens in jobs) / 4
    check_idle(model)


def test_streaming_coroutines(load: Load, jobs: Jobs, steps: Watch) -> None:
    model = load(**EXACT, context_size=1024)
    sizes = steps(model)

    async def run(prompt: list[int]) -> str:
        return "".join([piece async for piece in model.astream(prompt, **GREEDY)])

    async def run_all() -> list[str]:
        return await asyncio.gather(*(run(p) for p, _ in jobs))
    texts = asyncio.run(run_all())
    assert texts == [model.tokenizer.decode(t, at_start=False) for _, t in jobs]
    assert len(sizes) < sum(len(tokens) for _, tokens in jobs) / 2
    check_idle(model)


def test_cancelled_tasks(load: Load, jobs: Jobs) -> None:
    model = load(**EXACT)

    async def run() -> list[list[int]]:
        tasks = [asyncio.create_task(model.agenerate(p, **GREEDY)) for p, _ in jobs]
        doomed = asyncio.create_task(model.agenerate([5, 6], temperature=0.0))
        stream = model.astream([5, 6], temperature=0.0)
        await anext(stream)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        await stream.aclose()
        return [(await t).tokens for t in tasks]
    assert asyncio.run(run()) == [tokens for _, tokens in jobs]
    model.generate([5], max_tokens=1)
    check_idle(model)


def test_errors_reach_their_coroutine(load: Load) -> None:
    model = load(**EXACT)

    async def run() -> list[object]:
        return await asyncio.gather(
            model.agenerate([5], **GREEDY), model.agenerate([N_VOCAB], **GREEDY),
            model.agenerate([6], **GREEDY), return_exceptions=True)
    first, bad, last = asyncio.run(run())
    assert isinstance(bad, ValueError) and "vocabulary" in str(bad)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)
