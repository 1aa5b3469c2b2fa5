"""A forked child has its parent's memory and none of its threads: the model answers there, or an
error says why not."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.conftest import Load, check_idle
from engine.trouble import DETERMINISTIC, Acts
from unladen import Model, SamplerChain
from unladen._native.gguf import PagesAhead
from unladen.api.guided import LazyGuide
from unladen.api.stepper import Stepper
from unladen.errors import Cancelled, DeviceLost, ReentrantCall
from unladen.gguf import open_gguf
from unladen.storage.mapping import map_file
from unladen.tokenizer import Tokenizer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12}
ENDLESS: dict[str, Any] = {"temperature": 0.0, "max_tokens": 10**6, "ignore_eos": True}
SECONDS = 240


def in_child(work: Callable[[], object]) -> None:
    """Run ``work`` in a forked child, which must end in time with exit code 0. Garbage of earlier
    tests is collected before: a GPU's objects can't be released in a child."""
    gc.collect()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(0)
            work()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGABRT)  # pytest's fault handler prints where the child is
    os.waitpid(pid, 0)
    pytest.fail("the child hangs; where it is stands on stderr")


async def two(model: Model) -> list[list[int]]:
    made = await asyncio.gather(*(model.agenerate([5, 6], **GREEDY) for _ in range(2)))
    return [each.tokens for each in made]


def everything(model: Model, expected: list[int]) -> None:
    """Use a model in every way."""
    assert model.generate([5, 6], **GREEDY).tokens == expected
    assert asyncio.run(two(model)) == [expected] * 2
    stream = model.stream([5, 6], **GREEDY)
    list(stream)
    assert stream.result.tokens == expected
    assert model.tokenize("ab ab") and model.logits([5, 6]).shape[0] == 2
    threads = [threading.Thread(target=model.generate, args=([5, i],), kwargs=GREEDY)
               for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model.load_state(model.save_state([5] * 40))
    model.place(context_size=160)
    assert model.generate([5, 6], **GREEDY).tokens == expected
    check_idle(model)
    model.close()


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_after_any_use(load: Load, n_threads: int) -> None:
    model = load(**{**DETERMINISTIC, "n_threads": n_threads, "n_threads_batch": n_threads})
    expected = model.generate([5, 6], **GREEDY).tokens
    assert asyncio.run(two(model)) == [expected] * 2
    in_child(lambda: everything(model, expected))
    in_child(lambda: in_child(lambda: everything(model, expected)))
    assert model.generate([5, 6], **GREEDY).tokens == expected


@pytest.mark.parametrize("n_threads", [1, 3])
def test_while_threads_are_in_steps(load: Load, rng: np.random.Generator, n_threads: int) -> None:
    """These threads hold the engine's lock and the native pool's at the moment of the fork."""
    options = {**DETERMINISTIC, "n_threads": n_threads, "n_threads_batch": n_threads}
    model = load(**options, context_size=1 << 15)
    expected = model.generate([5, 6], **GREEDY).tokens
    streams = [model.stream([7, i], **ENDLESS) for i in range(3)]
    threads = [threading.Thread(target=_drain, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            time.sleep(rng.uniform(0, 0.01))
            in_child(lambda: _answers(model, expected))
    finally:
        model.close()
        for thread in threads:
            thread.join()


def _drain(stream: Any) -> None:
    with pytest.raises(Cancelled):
        list(stream)


def _answers(model: Model, expected: list[int]) -> None:
    assert model.generate([5, 6], **GREEDY).tokens == expected
    assert asyncio.run(two(model)) == [expected] * 2
    model.close()


def test_requests_of_the_parent(load: Load) -> None:
    """The parent's requests end in the child with an error, and go on in the parent."""
    model = load(**DETERMINISTIC)
    expected = model.generate([5, 6], **GREEDY).tokens
    stream, waiting = (model.stream([5, 6], **GREEDY) for _ in range(2))
    next(stream)

    def child() -> None:
        for inherited in (stream, waiting):
            with pytest.raises(Cancelled, match="forked"):
                list(inherited)
        inherited.close()
        assert model.generate([5, 6], **GREEDY).tokens == expected
        check_idle(model)
    in_child(child)
    list(stream), list(waiting)
    assert stream.result.tokens == waiting.result.tokens == expected
    check_idle(model)


def test_in_a_step(load: Load) -> None:
    """The child is inside that step, too: it may finish the step, but not call the model."""
    model = load(**DETERMINISTIC)
    expected = model.generate([5, 6], **GREEDY).tokens
    parent, children = os.getpid(), []

    def act(_: object) -> None:
        pid = os.fork()
        if pid:
            children.append(pid)
            return
        with pytest.raises(ReentrantCall):
            model.generate([5], max_tokens=1)
    chain = SamplerChain().step(Acts(2, act)).greedy()
    try:
        tokens = model.generate([5, 6], max_tokens=12, sampler=chain).tokens
    except BaseException:
        if os.getpid() != parent:
            os._exit(2)
        raise
    if os.getpid() != parent:
        os._exit(0 if tokens == expected and model.generate([5, 6], **GREEDY).tokens == expected
                 else 3)
    assert tokens == expected
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_devices_that_stay_behind(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(**DETERMINISTIC)
    monkeypatch.setattr(model.engine.plan, "survives_fork", False)

    def child() -> None:
        for call in (lambda: model.generate([5]), lambda: model.logits([5]),
                     lambda: model.place(context_size=64), lambda: model.save_state([5]),
                     lambda: asyncio.run(two(model))):
            with pytest.raises(DeviceLost, match="forked"):
                call()
        model.close()
    in_child(child)
    assert len(model.generate([5], max_tokens=2, ignore_eos=True).tokens) == 2


def test_pages_that_are_being_mapped(path: Path) -> None:
    mapping = map_file(str(path))
    for end in ("finish", "stop", "del"):
        ahead = [PagesAhead(mapping)]

        def child(end: str = end, ahead: list[PagesAhead] = ahead) -> None:
            if end != "del":
                getattr(ahead[0], end)()
            ahead.clear()
            gc.collect()
        in_child(child)
        ahead[0].stop()


def test_a_guard_that_is_held(path: Path) -> None:
    mapping = map_file(str(path))
    with mapping.guard:
        in_child(lambda: mapping.guard.acquire())
        assert mapping.guard.locked()


def test_a_guide_that_is_being_made(path: Path) -> None:
    pytest.importorskip("llguidance")
    guide = LazyGuide(Tokenizer.from_gguf(open_gguf(path).metadata))
    with guide._lock:
        in_child(guide.get)
    assert guide.get() is guide.get()


def test_a_stepper() -> None:
    stepper = Stepper()
    hold = threading.Event()
    busy = stepper.submit(hold.wait)

    def child() -> None:
        assert stepper.submit(os.getpid).result() == os.getpid()
        stepper.shutdown()
        with pytest.raises(Cancelled):
            stepper.submit(os.getpid)
    in_child(child)
    in_child(stepper.shutdown)
    hold.set()
    assert busy.result()
    stepper.shutdown()
    with pytest.raises(Cancelled, match="closed"):
        stepper.submit(os.getpid)
