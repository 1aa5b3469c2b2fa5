"""A model is closed while other threads use it: all their requests end with a typed error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load
from engine.trouble import DETERMINISTIC
from tiny_model import N_VOCAB
from unladen import Model
from unladen.errors import Cancelled, InvalidArgument, UnladenError

ENDLESS: dict[str, Any] = {"temperature": 0.0, "max_tokens": 10**6, "ignore_eos": True}


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except UnladenError as error:
        return error


@pytest.mark.parametrize("options", [DETERMINISTIC, EXACT], ids=["cpu", "reference"])
def test_under_way_in_threads(load: Load, rng: np.random.Generator, options: Any) -> None:
    """Some threads write, some wait for their turn, some read prompts, and one moves the model."""
    for _ in range(6):
        close_while_it_works(load(**options, context_size=4096, max_seqs=3, batch_size=32), rng)


def close_while_it_works(model: Model, rng: np.random.Generator) -> None:
    prompt = rng.integers(3, N_VOCAB, 2000).tolist()
    stream = model.stream([5, 6], **ENDLESS)
    next(stream)
    with ThreadPoolExecutor(8) as pool:
        calls: list[Callable[[], object]] = [
            *[partial(model.generate, [5, i], **ENDLESS) for i in range(3, 6)],
            lambda: list(stream), lambda: model.generate(prompt, **ENDLESS),
            lambda: model.logits(prompt), lambda: model.save_state(prompt)]
        running = [pool.submit(outcome, call) for call in calls]
        time.sleep(rng.uniform(0, 0.05))
        model.close()
        ended = [each.result(timeout=60) for each in running]
    # Late calls found a closed model; short requests may have been done before.
    assert all(isinstance(e, Cancelled | InvalidArgument) for e in ended[:5]), ended
    assert all(isinstance(e, Cancelled | InvalidArgument | np.ndarray | bytes)
               for e in ended[5:]), ended
    model.close()


def test_under_way_in_coroutines(load: Load) -> None:
    model = load(**DETERMINISTIC, context_size=4096)

    async def run() -> list[object]:
        tasks = [asyncio.create_task(model.agenerate([5, i], **ENDLESS)) for i in range(3, 8)]
        stream = model.astream([5, 6], **ENDLESS)
        await anext(stream)
        model.close()
        with pytest.raises((Cancelled, InvalidArgument)):
            async for _ in stream:
                pass
        return await asyncio.gather(*tasks, return_exceptions=True)
    ended = asyncio.run(run())
    assert all(isinstance(e, Cancelled | InvalidArgument) for e in ended), ended


def test_nothing_begins_afterwards(load: Load) -> None:
    model = load(**DETERMINISTIC)
    engine = model.engine
    stream = model.stream([5, 6], max_tokens=4, temperature=0.0)
    list(stream)
    model.close()
    assert len(stream.result.tokens) > 0 and stream.result.stop_reason is not None
    for call in (lambda: model.generate([5]), lambda: model.logits([5]),
                 lambda: model.place(context_size=64), lambda: model.context_size):
        with pytest.raises(InvalidArgument, match="no weights in memory"):
            call()
    for late in (lambda: engine.between_steps(lambda: None),
                 lambda: engine.submit(stream._request)):
        with pytest.raises(Cancelled, match="closed"):
            late()
    engine.cancel(stream._request)


def test_a_request_that_slipped_in(load: Load) -> None:
    """A request is submitted while the model is being closed."""
    model = load(**DETERMINISTIC)
    engine, stream = model.engine, model.stream([5, 6], **ENDLESS)
    engine._is_closed = True
    with pytest.raises(Cancelled):
        list(stream)
    assert engine.pool.n_available == engine.pool.n_blocks


def test_closed_by_many(load: Load) -> None:
    model = load(**DETERMINISTIC)
    stream = model.stream([5, 6], **ENDLESS)
    next(stream)
    threads = [threading.Thread(target=model.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(Cancelled):
        list(stream)


def test_the_memory_is_free_afterwards(load: Load) -> None:
    import gc
    import weakref
    model: Model = load(**DETERMINISTIC)
    model.generate([5, 6], max_tokens=3)
    plan = weakref.ref(model.engine.plan)
    model.close()
    gc.collect()
    assert plan() is None
