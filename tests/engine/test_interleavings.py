"""A thousand random mixtures of requests that fail in all known ways, beside healthy ones, which
must not change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, check_idle
from engine.test_speculate import eager
from engine.trouble import DETERMINISTIC, WAYS, Acts, Trouble, a_request, raises
from tiny_model import N_VOCAB
from unladen import Model, SamplerChain
from unladen.engine import admission
from unladen.errors import DeadlineExceeded, InvalidArgument, OutOfMemory
from unladen.types import Completion

PER_MODEL = 25
"""Number of interleavings that run on one model, one after another."""
Rng = np.random.Generator
Answer = tuple[list[int], str, str]


@dataclass(frozen=True)
class Job:
    """A healthy request, which must give its usual answer."""

    prompt: list[int]
    wishes: dict[str, Any]


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    """Prompts that share beginnings and repeat themselves, sampled in the usual ways."""
    rng = np.random.default_rng(7)
    common = rng.integers(3, N_VOCAB, 40).tolist()
    prompts = [common[:n] for n in (33, 40, 7)] + [[9, 20, 31, 8] * 5, [5], [5, 6]]
    prompts += [rng.integers(3, N_VOCAB, int(n)).tolist() for n in rng.integers(1, 40, 6)]
    ways: Sequence[dict[str, Any]] = (
        {"temperature": 0.0}, {"seed": 1}, {"temperature": 1.5, "seed": 2, "top_k": 0},
        {"temperature": 0.0, "logprobs": 2}, {"seed": 3, "mirostat": 2},
        {"seed": 4, "repeat_penalty": 1.3})
    return [Job(p, {**ways[i % len(ways)], "max_tokens": int(rng.integers(1, 14))})
            for i, p in enumerate(prompts)]


class Shortage:
    """Makes steps of ``model`` run out of memory when :attr:`due`; the engine then adopts the same
    plan again."""

    def __init__(self, model: Model, patch: pytest.MonkeyPatch) -> None:
        self.due = 0
        plan, engine = model.engine.plan, model.engine
        run = plan.run

        def failing() -> None:
            if self.due > 0:
                self.due -= 1
                raise OutOfMemory(device="cpu:0", requested=1, free=0)
            run()
        patch.setattr(plan, "run", failing)
        patch.setattr(engine, "_relieve", lambda e, _: e.adopt(e.plans, e.context_size))


def answer(completion: Completion) -> Answer:
    return completion.tokens, completion.text, completion.stop_reason


def healthy(model: Model, job: Job, how: str, when: dict[str, Any]) -> Callable[[], Answer]:
    """``when``: priority and deadline, which change nothing in an answer."""
    def in_thread() -> Answer:
        return answer(model.generate(job.prompt, **job.wishes, **when))

    def in_session() -> Answer:
        """A turn without an answer, then one with an answer, in a session or in a fork of it."""
        n = len(job.prompt) // 2
        with model.session(job.prompt[:n] or None) as session:
            if n:
                with session.fork() as other:
                    other.generate(max_tokens=n % 4, temperature=0.0)
            with session.fork() as fork:
                fork.append(job.prompt[n:])
                return answer(fork.generate(**job.wishes, **when))

    def as_stream() -> Answer:
        stream = model.stream(job.prompt, **job.wishes, **when)
        text = "".join(stream)
        assert text == stream.result.text
        return answer(stream.result)

    async def as_task() -> Answer:
        return answer(await model.agenerate(job.prompt, **job.wishes, **when))

    async def as_pieces() -> str:
        return "".join([piece async for piece in model.astream(job.prompt, **job.wishes)])
    if how == "pieces":
        text = answer(model.generate(job.prompt, **job.wishes))  # the rest of the answer
        return lambda: (text[0], asyncio.run(as_pieces()), text[2])
    return {"thread": in_thread, "stream": as_stream, "session": in_session,
            "task": lambda: asyncio.run(as_task())}[how]


def outlived(model: Model, prompt: list[int], at: int, n: int
             ) -> dict[str, Callable[[], object]]:
    """Requests whose deadline passes, and sessions that end with a request under way."""
    def late() -> None:
        with pytest.raises(DeadlineExceeded):
            model.generate(prompt, deadline=0, priority=n)

    def late_while_it_runs() -> None:
        request = a_request(model, prompt, 60, sampler=SamplerChain().step(
            Acts(at, lambda _: setattr(request, "deadline", 0.0))).greedy().build())
        model.engine.submit(request)
        model.engine.finish(request)
        assert request.stop_reason == "deadline"

    def cancelled_session() -> None:
        session = model.session(prompt)
        forks = [session.fork() for _ in range(n % 3)]
        stream = session.stream(max_tokens=60, temperature=0.0)
        for _ in range(at):
            next(stream, None)
        (session if n % 2 else stream).close()
        assert session.tokens[:len(prompt)] == prompt
        for each in (session, *forks):
            each.close()

    def failing_session() -> None:
        with model.session(prompt) as session:
            with pytest.raises(Trouble):
                session.generate(max_tokens=20, sampler=SamplerChain().step(
                    Acts(at, raises())).greedy())
            assert session.tokens == prompt
    return {"late": late, "late while it runs": late_while_it_runs,
            "cancelled session": cancelled_session, "failing session": failing_session}


def guilty(model: Model, rng: Rng, shortage: Shortage) -> Callable[[], object]:
    """A request that fails; it checks that it ends with its own error."""
    prompt = rng.integers(3, N_VOCAB, int(rng.integers(1, 40))).tolist()
    at, n = int(rng.integers(0, 6)), int(rng.integers(1, 9))
    kind = rng.choice([*WAYS, "cancelled stream", "cancelled from a step", "cancelled task",
                       "bad ids", "shortage", "late", "late while it runs", "cancelled session",
                       "failing session"])
    others: list[Any] = []

    def fails() -> None:
        request, error = WAYS[str(kind)](model, prompt, 20, at)
        model.engine.submit(request)
        model.engine.finish(request)
        assert type(request.error) is error, (kind, request.error)
        assert len(request.tokens) - request.n_prompt <= at

    def cancelled_stream() -> None:
        stream = model.stream(prompt, max_tokens=60, temperature=0.0)
        for _ in range(n):
            next(stream, None)
        stream.close()
        assert stream._request.stop_reason in ("cancelled", "length") or not stream._request.done

    def from_a_step() -> None:
        others.append(model.stream(prompt, max_tokens=60, temperature=0.0))
        chain = SamplerChain().step(Acts(at, lambda _: others.pop().close())).greedy()
        request = a_request(model, prompt[::-1], at + 2, sampler=chain.build())
        model.engine.submit(request)
        model.engine.finish(request)
        assert request.stop_reason == "length" and not others

    async def cancelled_task() -> None:
        task = asyncio.create_task(model.agenerate(prompt, max_tokens=60, temperature=0.0))
        await asyncio.sleep(0.001 * n)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def bad_ids() -> None:
        with pytest.raises(InvalidArgument):
            model.generate([*prompt, (N_VOCAB, -1, 2**40)[n % 3]])

    def short() -> None:
        shortage.due += 1
        model.generate(prompt, max_tokens=3, temperature=0.0)
    return {"cancelled stream": cancelled_stream, "cancelled from a step": from_a_step,
            "cancelled task": lambda: asyncio.run(cancelled_task()), "bad ids": bad_ids,
            "shortage": short, **outlived(model, prompt, at, n)}.get(str(kind), fails)


def interleave(model: Model, seed: int, jobs: Sequence[Job], alone: Sequence[Answer],
               shortage: Shortage, pool: ThreadPoolExecutor) -> None:
    """Run some of ``jobs`` and some guilty requests at once, each in its own thread."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(jobs), int(rng.integers(1, 5)), replace=False).tolist()
    calls: list[tuple[int | None, Callable[[], Any]]] = [
        (i, healthy(model, jobs[i], str(rng.choice(
            ["thread", "stream", "task", "pieces", "session"], p=[0.3, 0.2, 0.2, 0.1, 0.2])),
            {"priority": int(rng.integers(-2, 3)), "deadline": (None, 1e6)[rng.integers(2)]}))
        for i in chosen]
    calls += [(None, guilty(model, rng, shortage)) for _ in range(int(rng.integers(1, 5)))]
    order = rng.permutation(len(calls)).tolist()
    barrier = threading.Barrier(len(calls))

    def at_once(call: Callable[[], Any]) -> Any:
        barrier.wait(timeout=120)
        return call()
    running = [(calls[i][0], pool.submit(at_once, calls[i][1])) for i in order]
    for which, each in running:
        result = each.result(timeout=240)
        if which is not None:
            assert result == alone[which], f"seed {seed}: job {which}"


def run(path: Path, first: int, n: int, jobs: Sequence[Job], options: Any, *, drafts: bool) -> None:
    """Run the interleavings of the seeds from ``first`` on."""
    with Model(path, **options, speculate=False) as single:
        alone = [answer(single.generate(job.prompt, **job.wishes)) for job in jobs]
    with ThreadPoolExecutor(8) as pool, pytest.MonkeyPatch.context() as patch:
        for start in range(first, first + n, PER_MODEL):
            rng = np.random.default_rng(start)
            # Now and then the cache, the step or the batch is too small for all, and requests write
            # more than was expected.
            context = int(rng.choice([112, 192]))
            sizes = {"batch_size": int(rng.choice([8, 64])), "max_seqs": int(rng.choice([2, 8])),
                     "context_size": context,
                     "cache_tokens": (context, context + 64, None)[rng.integers(3)]}
            patch.setattr(admission, "EXPECTED", int(rng.choice([1, 16, 256])))
            with Model(path, **options, speculate=drafts, **sizes) as loaded:
                model = eager(loaded) if drafts else loaded
                shortage = Shortage(model, patch)
                for seed in range(start, min(start + PER_MODEL, first + n)):
                    interleave(model, seed, jobs, alone, shortage, pool)
                shortage.due = 0
                model.generate([5], max_tokens=1)  # removes the request cancelled last
                check_idle(model)
            patch.undo()


@pytest.fixture
def first(rng: Rng) -> int:
    seed = int(rng.integers(2**40))
    print(f"first seed: {seed}")
    return seed


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafts"])
def test_interleavings(path: Path, jobs: list[Job], first: int, drafts: bool) -> None:
    run(path, first, 480, jobs, DETERMINISTIC, drafts=drafts)


def test_interleavings_with_a_step_ahead(path: Path, jobs: list[Job], first: int) -> None:
    """The device chooses tokens, and the next step begins before they are read."""
    run(path, first, 40, jobs, EXACT, drafts=False)
