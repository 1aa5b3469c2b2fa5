"""Drafts: the same tokens from fewer steps, and only where they pay off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle, scripted
from engine.test_ahead import Log
from engine.test_batching import check_same, greedy, mixed, seeded, together
from unladen import Model, SamplerChain
from unladen._native.engine import Lookup
from unladen.cache import BlockPool, CachedSequence
from unladen.engine.batcher import Work
from unladen.engine.request import Request
from unladen.engine.running import Running
from unladen.engine.speculate import Speculator, StepCosts
from unladen.errors import InvalidArgument
from unladen.tokenizer import StreamDecoder
from unladen.types import Completion, Limits

LIMITS = Limits(n_tokens=64, n_outputs=64, n_seqs=8, n_blocks_per_seq=8, n_blocks=16)


class FreeRows(StepCosts):
    """Costs by which every step takes a second, so that all likely tokens are drafted."""

    def of(self, n_rows: int, base: int) -> float:
        return 1.0


def eager(model: Model, n_draft: int = 15) -> Model:
    """``model``, which drafts all that it can."""
    model.engine.speculator = Speculator(n_draft, FreeRows())
    return model


def guesses(tokens: Sequence[int], n: int) -> list[int]:
    """The tokens after the latest earlier occurrence of the last three tokens, repeated as often as
    needed."""
    text = list(tokens)
    last = text[-3:]
    end = next((e for e in range(len(text) - 1, 2, -1) if text[e - 3:e] == last), None)
    for _ in range(n if end is not None else 0):
        assert end is not None
        text.append(text[end])
        end += 1
    return text[len(tokens):]


def test_a_text_that_goes_in_a_circle(rng: np.random.Generator) -> None:
    for period in (1, 2, 3, 7, 20):
        circle = rng.permutation(1000)[:period].tolist()
        text = (circle * 40)[:period + 60]
        lookup = Lookup()
        assert len(lookup.chances(text, 15)) == 15
        for n in (0, 1, 5, 50):
            assert lookup.draft(n) == (circle * 99)[len(text):len(text) + n]


def test_the_latest_place_where_it_was_said(rng: np.random.Generator) -> None:
    """The latest occurrence counts at first; afterwards a match goes on for as long as it holds."""
    n_found = 0
    for _ in range(200):
        text = rng.integers(0, 4, rng.integers(1, 30)).tolist()
        lookup = Lookup()
        lookup.chances(text[:-1], 5)
        if lookup.draft(1):
            continue
        lookup.chances(text, 5)
        expected = guesses(text, 6)
        assert lookup.draft(6) == expected
        n_found += bool(expected)
    assert n_found > 5


def test_nothing_is_guessed_from_nothing() -> None:
    lookup = Lookup()
    assert lookup.chances([], 5) == [] == lookup.draft(5)
    assert lookup.chances(list(range(500)), 5) == [] == lookup.draft(5)


def test_what_doesnt_come_true_is_not_guessed_again(rng: np.random.Generator) -> None:
    """The same three tokens occur again and again, each time with another token after them."""
    lookup, text = Lookup(), [1, 2, 3]
    chances = []
    for i in range(40):
        text += [10 + i, 1, 2, 3]
        chances.append(lookup.chances(text, 3))
    assert chances[0] and not chances[-1]
    assert all(0 < b <= a < 1 for found in chances for a, b in pairwise(found))


def test_times_of_steps() -> None:
    costs = StepCosts()
    assert costs.of(1, 1) == 0
    for rows, seconds in ((1, 9.0), (1, 1.0), (4, 9.0)):
        costs.add(rows, seconds)
    assert costs.of(1, 1) == 1.0, "the first one doesn't count"
    assert costs.of(4, 1) == pytest.approx(1.15), "nor here, so it is a guess"
    costs.add(4, 3.0)
    assert costs.of(4, 1) == 3.0
    costs.add(1, 1e9)
    assert 1.0 < costs.of(1, 1) <= 1.125, "somebody else's time"
    for _ in range(StepCosts.PATIENCE):
        costs.add(1, 1.0)
    assert costs.of(4, 1) < 1.3, "what was slow is tried again one day"


def one(tokens: list[int]) -> Work:
    request = Request(tokens, sampler=scripted([1]), max_tokens=20,
                      decoder=StreamDecoder(Model("tiny", vocab_only=True).tokenizer))
    cached = CachedSequence(BlockPool(9, 32), lambda target, source: None, 9)
    return Work(Running(request, cached), 1, 1)


CIRCLE = [5, 6, 7, 8] * 12


@pytest.mark.parametrize(("seconds", "n"), [(1.0, 15), (2.0, 15), (30.0, 0)])
def test_drafts_that_pay(seconds: float, n: int) -> None:
    """Steps of 16 rows take a given multiple of the time of a step of one row."""
    costs = StepCosts()
    for rows in (1, 2, 4, 8, 16):
        for _ in range(2):
            costs.add(rows, 1.0 if rows == 1 else seconds)
    work = [one(CIRCLE)]
    work[0].running.lookup.chances(CIRCLE, 1)
    (got,) = Speculator(15, costs).extend(work, LIMITS, 100)
    assert len(got.draft) == n and got.n_tokens == got.n_outputs == n + 1
    assert list(got.draft) == (CIRCLE * 2)[len(CIRCLE):len(CIRCLE) + n]


def test_where_there_are_no_drafts() -> None:
    free = FreeRows()
    work = [one(CIRCLE), one(CIRCLE)]
    assert all(len(w.draft) == 4 for w in Speculator(4, free).extend(work, LIMITS, 100))
    assert not any(w.draft for w in Speculator(0, free).extend(work, LIMITS, 100))
    slots = Limits(64, 64, 8, 8, 16, n_slots=9)
    assert not any(w.draft for w in Speculator(4, free).extend(work, slots, 100)), "recurrent"
    prompt = Work(work[0].running, 9, 1)
    assert not any(w.draft for w in Speculator(4, free).extend([prompt, work[1]], LIMITS, 100))
    assert not any(w.draft for w in Speculator(4, free).extend(work, LIMITS, len(CIRCLE) + 1))
    few = Limits(5, 5, 8, 8, 16)
    assert sum(len(w.draft) for w in Speculator(4, free).extend(work, few, 100)) == 3
    assert not any(w.draft for w in Speculator(4).extend(work, LIMITS, 100)), "no time is known"


@pytest.mark.parametrize("wishes", [greedy, seeded, mixed])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"max_seqs": 2}, {"context_size": 128}])
def test_the_same_tokens(load: Load, prompts: list[list[int]], wishes: Any, options: dict[str, Any]
                         ) -> None:
    """With several sequences, with chunks, and with a cache that is too small for all."""
    prompts = [[*p[:60], *p[:20], *p[:5]] for p in prompts]
    found: list[list[Completion]] = []
    for model in (eager(load(**EXACT, **options)), load(**EXACT, speculate=False, **options)):
        found.append(together(model, prompts, wishes))
        check_idle(model)
    check_same(*found)
    assert all(r.timings.n_drafted == 0 for r in found[1])


@pytest.mark.parametrize("wrong", [(), (3, 4, 11), tuple(range(4, 60, 9)), (50,)])
def test_guesses_right_and_wrong(load: Load, wrong: Sequence[int]) -> None:
    """The text is given, so the results of the steps and the contents of the cache are known."""
    circle = [9, 20, 31, 8, 40]
    script = [70 + i if i in wrong else circle[i % 5] for i in range(60)]
    prompt = circle * 4
    model, plain = eager(load(**EXACT)), load(**EXACT, speculate=False)
    log = Log(model)
    result = model.generate(prompt, max_tokens=60, sampler=scripted(script))
    assert result.tokens == script
    n_steps = log.events.count("run")
    assert n_steps == 60 - result.timings.n_accepted
    if not wrong:
        assert result.timings.n_accepted > 50
    else:
        assert result.timings.n_drafted > result.timings.n_accepted
    check_idle(model)
    more = prompt + script + [5]
    alike = {"max_tokens": 5, "temperature": 0.0, "logprobs": 2}
    check_same([model.generate(more, **alike)], [plain.generate(more, **alike)])
    assert model.generate(more, **alike).usage.n_cached > 60
    np.testing.assert_allclose(model.logits(more), plain.logits(more), atol=1e-4)


def test_ends_within_a_draft(load: Load) -> None:
    circle = [259 + 8, 259 + 9, 259 + 10, 259 + 11, 259 + 12]  # a b c d e
    model = eager(load(**EXACT))
    text = circle * 8
    stopped = model.generate(text, max_tokens=50, stop="dea", sampler=scripted(circle))
    assert (stopped.stop_reason, stopped.text, stopped.tokens) == (
        "stop", "abc", [*circle, circle[0]])
    model.tokenizer.eog_ids = frozenset({circle[3]})
    ended = model.generate(text, max_tokens=50, sampler=scripted(circle))
    assert (ended.stop_reason, ended.tokens) == ("eos", circle[:3])
    model.tokenizer.eog_ids = frozenset()
    for n in (1, 2, 7, 31):
        cut = model.generate(text, max_tokens=n, sampler=scripted(circle))
        assert (cut.stop_reason, len(cut.tokens)) == ("length", n)
    full = model.generate(text, sampler=scripted(circle))
    assert full.stop_reason == "context" and len(full.tokens) == model.context_size - len(text)
    assert full.timings.n_accepted > 30
    assert "".join(model.stream(text, max_tokens=12, sampler=scripted(circle))) == "abcdeabcdeab"
    check_idle(model)


def test_candidates_and_log_probabilities(load: Load) -> None:
    """Rows of drafts give the same best candidates and log-probabilities as other rows."""
    prompt = [9, 20, 31, 8] * 6
    for wishes in ({"temperature": 0.02, "top_k": 3, "seed": 4}, {"temperature": 0.0},
                   {"temperature": 0.0, "logprobs": 3}, {"temperature": 0.3, "seed": 1},
                   {"mirostat": 2, "seed": 3}, {"temperature": 0.0, "repeat_penalty": 1.2}):
        got = eager(load(**EXACT)).generate(prompt, max_tokens=70, **wishes)
        check_same([got], [load(**EXACT, speculate=False).generate(prompt, max_tokens=70,
                                                                   **wishes)])
        assert got.logprobs is None or len(got.logprobs) == 70


def test_the_knobs(load: Load) -> None:
    sampler = SamplerChain().step(scripted([9, 20, 31, 8]).steps[0])
    model = eager(load(**EXACT), n_draft=2)
    result = model.generate([9, 20, 31, 8] * 6, max_tokens=40, sampler=sampler)
    assert 26 <= result.timings.n_accepted <= result.timings.n_drafted
    with pytest.raises(InvalidArgument, match="n_draft must be at least 1"):
        load(n_draft=0)
