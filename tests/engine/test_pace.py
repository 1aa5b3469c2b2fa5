"""Steps with prompts take little time while others wait, and no prompt starves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from tiny_model import N_VOCAB
from unladen import Model
from unladen.engine import engine as module
from unladen.engine.batcher import MIN_CHUNK, Work, pick
from unladen.engine.pace import Load as StepLoad
from unladen.engine.pace import Pace
from unladen.graph.graph import Graph
from unladen.types import Limits

GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
LIMITS = Limits(512, 64, 32, 200, 6400)
NOTHING = Graph((), {}, {}, 0)


@dataclass(eq=False)
class Prompt:
    """What :func:`pick` looks at: ``n_left`` tokens of a prompt, ``n`` of which are computed."""

    n_left: int
    priority: int = 0
    is_decoding: bool = False
    n: int = 0
    n_passed_over: int = 0
    is_recurrent: bool = False
    request: Any = field(init=False)

    def __post_init__(self) -> None:
        self.request = SimpleNamespace(wants_all_logits=False, priority=self.priority,
                                       tokens=range(self.n_left))

    @property
    def n_pending(self) -> int:
        return self.n_left - self.n

    @property
    def cached(self) -> Any:
        return SimpleNamespace(length=self.n, is_recurrent=self.is_recurrent)


def picked(prompts: list[Prompt], pace: Pace, limits: Limits = LIMITS) -> list[Work]:
    return pick(prompts, limits, pace)  # type: ignore[arg-type]


def paced(bound: float, fixed: float, unit: float, n_decoding: int = 1) -> Pace:
    """A pace that has learned the time of steps with ``n_decoding`` sequences, and of a unit."""
    pace = Pace(bound, NOTHING)
    for _ in range(3):
        pace.learn(StepLoad(n_decoding, 0), fixed, has_waited=True)
    for _ in range(2):
        pace.learn(StepLoad(0, 100), 100 * unit, has_waited=True)
    return pace


def run_all(prompts: list[Prompt], pace: Pace, limits: Limits = LIMITS) -> list[list[int]]:
    """Take steps until all prompts are computed; the tokens of each prompt in each step."""
    steps = []
    while any(p.n_pending for p in prompts if not p.is_decoding):
        work = picked([p for p in prompts if p.is_decoding or p.n_pending], pace, limits)
        tokens = {id(w.running): w.n_tokens for w in work}
        steps.append([tokens.get(id(p), 0) for p in prompts])
        for p in prompts:
            p.n += 0 if p.is_decoding else tokens.get(id(p), 0)
    return steps


def test_a_step_has_as_many_tokens_as_its_time_allows() -> None:
    pace = paced(0.25, fixed=0.05, unit=0.001)
    decoding = Prompt(1, is_decoding=True)
    assert [w.n_tokens for w in picked([decoding, Prompt(4000)], pace)] == [1, 200]
    assert [w.n_tokens for w in picked([decoding, Prompt(150)], pace)] == [1, 150]
    slow = paced(0.25, fixed=0.2, unit=0.001)
    assert [w.n_tokens for w in picked([decoding, Prompt(4000)], slow)] == [1, 400], "thrice 0.2 s"
    assert [w.n_tokens for w in picked([decoding, Prompt(4000)], paced(0, 0.01, 1))] == [
        1, MIN_CHUNK]


def test_without_others_a_prompt_has_the_whole_step() -> None:
    pace = paced(0.25, fixed=0.05, unit=0.01)
    assert [w.n_tokens for w in picked([Prompt(4000)], pace)] == [512]
    assert sum(w.n_tokens for w in picked([Prompt(4000), Prompt(3000)], pace)) == 512
    # A prompt that is complete in little time waits for no whole step of another.
    assert sum(w.n_tokens for w in picked([Prompt(4000), Prompt(20)], pace)) <= 32
    decoding = Prompt(1, is_decoding=True)
    assert [w.n_tokens for w in picked([decoding, Prompt(4000)], Pace(None, NOTHING))] == [1, 511]


def test_it_begins_with_little() -> None:
    work = picked([Prompt(1, is_decoding=True), Prompt(4000)], Pace(0.25, NOTHING))
    assert [w.n_tokens for w in work] == [1, MIN_CHUNK]


@pytest.mark.parametrize("bound", [0.0, 0.1, 0.25, 10.0])
def test_short_prompts_first_and_none_starves(rng: np.random.Generator, bound: float) -> None:
    pace = paced(bound, fixed=0.05, unit=0.001)
    long, decoding = Prompt(3000), Prompt(1, is_decoding=True)
    shorts = [Prompt(int(n)) for n in rng.integers(20, 200, 60)]
    prompts = [decoding, long]
    n_steps, since = 0, 0
    while long.n_pending:
        if n_steps % 2 == 0 and shorts:  # more work comes than can be done
            prompts.append(shorts.pop())
        work = picked([p for p in prompts if p.is_decoding or p.n_pending], pace)
        sizes = {id(w.running): w.n_tokens for w in work}
        waiting = [p for p in prompts if p.n_pending and not p.is_decoding and p is not long]
        if waiting:
            first = min(waiting, key=lambda p: p.n_pending)
            rest = sum(n for key, n in sizes.items() if key not in (id(long), id(decoding)))
            assert sizes.get(id(first)) or not rest, "no longer prompt overtakes the shortest"
        since = 0 if sizes.get(id(long)) else since + 1
        assert since < 4, "the oldest prompt has a share in one of four steps"
        assert sum(sizes.values()) <= LIMITS.n_tokens
        for p in prompts:
            p.n += 0 if p.is_decoding else sizes.get(id(p), 0)
        n_steps += 1
    steps = run_all(prompts, pace)
    assert all(p.n_pending == 0 for p in prompts if not p.is_decoding), steps[-1]


def test_a_priority_comes_before_length() -> None:
    pace = paced(0.25, fixed=0.05, unit=0.001)
    prompts = [Prompt(1, is_decoding=True), Prompt(900), Prompt(150), Prompt(600, priority=1)]
    steps = run_all(prompts, pace)
    last = [max(i for i, step in enumerate(steps) if step[j]) for j in (1, 2, 3)]
    assert last[2] < last[1] < last[0]


def test_deep_tokens_count_more() -> None:
    graph = SimpleNamespace(nodes=[])
    pace = Pace(0.25, graph)  # type: ignore[arg-type]
    pace._per_key = 1 / 1000
    for _ in range(2):
        pace.learn(StepLoad(0, 100), 0.1, has_waited=True)
    deep = Prompt(9000, n=3000)
    (_, work) = picked([Prompt(1, is_decoding=True), deep], pace)
    assert work.n_tokens == 250 / 4 // 1
    load = pace.load([work])
    assert load is not None and load.units == work.n_tokens * 4


def test_a_recurrent_prompt_stops_where_its_last_whole_block_ends(rng: np.random.Generator) -> None:
    """There it leaves a checkpoint for the next turn, wherever time ends its steps."""
    for _ in range(50):
        size = LIMITS.block_tokens
        n_left = int(rng.integers(size, 20 * size))
        others = [Prompt(1, is_decoding=True) for _ in range(rng.integers(0, 3))]
        prompt = Prompt(n_left, is_recurrent=True)
        pace = paced(bound=float(rng.uniform(0.02, 0.3)), fixed=0.01, unit=0.001)
        steps = run_all([*others, prompt, Prompt(int(rng.integers(1, 300)))], pace)
        ends = np.cumsum([step[len(others)] for step in steps])
        assert n_left // size * size in ends, (n_left, ends)


def test_accidents_change_little(rng: np.random.Generator) -> None:
    """A step that takes a hundred times as long shortens the next ones by a fifth at most."""
    pace = paced(0.25, fixed=0.05, unit=0.001)
    before = pace.units(1)
    pace.learn(StepLoad(1, 200), 25.0, has_waited=True)
    assert before > pace.units(1) > 0.75 * before
    for _ in range(20):
        pace.learn(StepLoad(1, 200), 0.25, has_waited=True)
    assert pace.units(1) == pytest.approx(before, rel=0.02)
    for _ in range(20):  # for good it is taken seriously
        pace.learn(StepLoad(1, 200), 0.85, has_waited=True)
    assert pace.units(1) == pytest.approx(50, rel=0.1)


def test_times_of_steps_without_prompts_go_out_of_date() -> None:
    pace = paced(0.25, fixed=0.2, unit=0.001)
    for _ in range(30):
        pace.learn(StepLoad(1, 100), 0.12, has_waited=True)
    assert pace.units(1) == pytest.approx(100 * 0.25 / 0.12, rel=0.02)


def test_steps_that_nobody_waited_for_say_nothing() -> None:
    pace = paced(0.25, fixed=0.05, unit=0.001)
    before = pace.units(1)
    pace.learn(StepLoad(0, 500), 1e-6, has_waited=False)
    pace.learn(StepLoad(1, 100), 9.0, has_waited=True)
    assert pace.units(1) == before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], list[tuple[int, float]]]:
    """Let each step of a model take 20 ms and 1 ms for each token; the number of sequences and the
    seconds of each step."""
    def start(model: Model) -> list[tuple[int, float]]:
        steps: list[tuple[int, float]] = []
        now, plan = [0.0], model.engine.plan
        run = plan.run

        def timed() -> None:
            seconds = 0.02 + 0.001 * plan.batch.n_tokens
            now[0] += seconds
            steps.append((plan.batch.n_seqs, seconds))
            run()
        monkeypatch.setattr(plan, "run", timed)
        monkeypatch.setattr(module, "time", SimpleNamespace(
            perf_counter=lambda: now[0], monotonic=time.monotonic))
        return steps
    return start


def test_streams_go_on_while_prompts_are_read(
        load: Load, rng: np.random.Generator,
        clock: Callable[[Model], list[tuple[int, float]]]) -> None:
    prompt = rng.integers(3, N_VOCAB, 1500).tolist()
    options = {**EXACT, "context_size": 1700, "speculate": False}
    expected = load(**options).generate(prompt, max_tokens=3, **GREEDY).tokens
    model = load(**options, step_seconds=0.1)
    stream = model.stream([5, 6], max_tokens=300, **GREEDY)
    for _ in range(8):
        next(stream)
    steps = clock(model)
    for _ in range(8):
        next(stream)
    assert model.generate(prompt, max_tokens=3, **GREEDY).tokens == expected
    with_prompt = [seconds for n, seconds in steps if n == 2 and seconds > 0.023]
    assert len(with_prompt) > 10 and max(with_prompt) < 0.11
    assert np.median(with_prompt) > 0.08, "the time is used"
    stream.close()
    assert max(seconds for _, seconds in steps) < 0.11
    model.generate(prompt[::-1], max_tokens=1, **GREEDY)
    assert max(seconds for _, seconds in steps) > 0.5, "alone, a prompt has whole steps"
    check_idle(model)


def test_deterministic_whatever_the_bound(load: Load, rng: np.random.Generator) -> None:
    prompts = [rng.integers(3, N_VOCAB, n).tolist() for n in (150, 60, 100)]
    found = []
    for bound in (None, 0, 0.01):
        model = load(deterministic=True, step_seconds=bound)
        stream = model.stream([5, 6], max_tokens=60, **GREEDY)
        next(stream)
        results = model.generate(prompts, max_tokens=6, logprobs=1, **GREEDY)
        found.append([(r.tokens, r.logprobs) for r in results])
        stream.close()
        check_idle(model)
    assert found[0] == found[1] == found[2]
