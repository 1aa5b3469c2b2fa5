"""Steps that start before the tokens of the last step are read, and tokens that the device
chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from tiny_model import N_VOCAB
from unladen import Model, SamplerChain
from unladen.sample import BadLogits

GREEDY = {"temperature": 0.0}
SEEDED = {"temperature": 1.3, "top_k": 40, "seed": 7}


@pytest.fixture
def load(load: Load) -> Load:
    """Models with random weights, which write as many tokens as allowed, one in each step. They
    don't speculate: with drafts no step would start ahead."""
    def endless(**options: Any) -> Model:
        model = load(speculate=False, **options)
        model.tokenizer.eog_ids = frozenset()
        return model
    return endless


def whole_rows(model: Model) -> Model:
    """``model`` as if its device had no op that chooses tokens."""
    plan: Any = model.engine.plan
    plan.n_best, plan.runs_ahead = {}, False
    return model


class Log:
    """The calls of a plan in order: "run", "ahead", or the name of the output that is read."""

    def __init__(self, model: Model) -> None:
        self.events: list[str] = []
        self.plan: Any = model.engine.plan
        self.run, self.fetch, self.output = self.plan.run, self.plan.fetch, self.plan.output
        self.plan.run, self.plan.fetch, self.plan.output = self._run, self._fetch, self._output

    def _run(self) -> None:
        self.events.append("ahead" if self.plan.batch.continues else "run")
        self.run()

    def _fetch(self, name: str) -> Callable[[], Any]:
        wait = self.fetch(name)

        def logged() -> Any:
            self.events.append(name)
            return wait()
        return logged

    def _output(self, name: str) -> Any:
        self.events.append(name)
        return self.output(name)


def test_a_step_is_started_before_the_last_one_is_read(load: Load) -> None:
    model = load(**EXACT)
    log = Log(model)
    model.generate([5, 6, 7], max_tokens=5, **GREEDY)
    assert log.events == ["run", "ahead", "argmax", "ahead", "argmax", "ahead", "argmax", "ahead",
                          "argmax", "argmax"], "and none in vain, since the end was known"
    check_idle(model)


@pytest.mark.parametrize(("wishes", "read"), [
    (SEEDED, ["top_ids", "top_logits"]), ({**SEEDED, "top_k": 0}, ["logits"]),
    ({**GREEDY, "repeat_penalty": 1.1}, ["logits"]), ({**GREEDY, "logprobs": 2}, ["logits"]),
    ({**SEEDED, "top_k": 300}, ["logits"])])
def test_what_is_read_otherwise(load: Load, wishes: dict[str, Any], read: list[str]) -> None:
    model = load(**EXACT)
    log = Log(model)
    model.generate([5, 6, 7], max_tokens=3, **wishes)
    assert log.events == ["run", *read] * 3
    check_idle(model)


@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"max_seqs": 2}, {"context_size": 96}])
def test_the_same_tokens_as_from_whole_rows(load: Load, prompts: list[list[int]],
                                            options: dict[str, Any]) -> None:
    """Greedy and sampled requests begin and end at different times."""
    found = []
    for model in (load(**EXACT, **options), whole_rows(load(**EXACT, **options))):
        streams = [model.stream(p[:60], max_tokens=5 + 7 * i, **(SEEDED if i == 3 else GREEDY))
                   for i, p in enumerate(prompts[:4])]
        for _ in range(6):
            next(streams[2], None)
        streams += [model.stream(p[:60], max_tokens=30, **GREEDY) for p in prompts[4:]]
        for stream in streams:
            list(stream)
        found.append([(s.result.tokens, s.result.text, s.result.stop_reason) for s in streams])
        check_idle(model)
    assert found[0] == found[1]


def test_ends_that_nobody_foresaw(load: Load, rng: np.random.Generator) -> None:
    """After a stop string or an end token the step ahead was in vain; other requests go on."""
    model, plain = load(**EXACT), whole_rows(load(**EXACT))
    prompts = [rng.integers(3, N_VOCAB, n).tolist() for n in (6, 40, 31)]
    wanted = [plain.generate(p, max_tokens=50, **GREEDY) for p in prompts]
    ends = wanted[0].tokens[9]
    stop = wanted[1].text[len(wanted[1].text) // 2:][:3]
    assert stop
    for one in (model, plain):
        one.tokenizer.eog_ids = frozenset({ends})
    expected = [plain.generate(p, max_tokens=50, stop=s, **GREEDY)
                for p, s in zip(prompts, ((), stop, ()), strict=True)]
    assert len(expected[0].tokens) <= 9 and len(expected[1].tokens) < 50
    streams = [model.stream(p, max_tokens=50, stop=s, **GREEDY)
               for p, s in zip(prompts, ((), stop, ()), strict=True)]
    for stream in streams:
        list(stream)
    for stream, other in zip(streams, expected, strict=True):
        assert (stream.result.tokens, stream.result.text, stream.result.stop_reason) == (
            other.tokens, other.text, other.stop_reason)
    check_idle(model)
    # Rows that were computed in vain are not reused as a prefix.
    more = prompts[0] + expected[0].tokens + [7] * 40
    assert np.array_equal(model.logits(more), plain.logits(more))
    assert (model.generate(more, max_tokens=9, **GREEDY).tokens
            == plain.generate(more, max_tokens=9, **GREEDY).tokens)


def test_changes_while_a_step_is_ahead(load: Load) -> None:
    """After any number of steps: a request is cancelled, another one comes, or the plan is
    replaced."""
    expected = whole_rows(load(**EXACT)).generate([5, 6], max_tokens=40, **GREEDY).tokens
    other = whole_rows(load(**EXACT)).generate([9] * 35, max_tokens=6, **GREEDY).tokens
    model = load(**EXACT)
    for n in (1, 2, 31):  # the last one takes a new block
        first = model.stream([5, 6], max_tokens=40, **GREEDY)
        second = model.stream([7], max_tokens=40, **GREEDY)
        for _ in range(n):
            model.engine.step()
        assert model.engine._flight is not None
        second.close()
        third = model.stream([9] * 35, max_tokens=6, **GREEDY)
        model.engine.step()
        model.place(context_size=160 + n)
        assert model.engine._flight is None
        list(first), list(third)
        assert (first.result.tokens, third.result.tokens) == (expected, other)
        check_idle(model)


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_step_ahead_that_fails_costs_no_token(load: Load, monkeypatch: pytest.MonkeyPatch,
                                                failing: int) -> None:
    model = load(**EXACT)
    expected = whole_rows(load(**EXACT)).generate([5, 6], max_tokens=9, **GREEDY).tokens
    run, calls = model.engine.plan.run, iter(range(10**6))

    def fails_once() -> None:
        if next(calls) == failing:
            raise KeyboardInterrupt
        run()
    monkeypatch.setattr(model.engine.plan, "run", fails_once)
    stream = model.stream([5, 6], max_tokens=9, **GREEDY)
    other = model.stream([7, 8, 9], max_tokens=9, **GREEDY)
    with pytest.raises(KeyboardInterrupt):
        model.engine.finish(other._request)
    list(stream)
    assert stream.result.tokens == expected
    check_idle(model)


@pytest.mark.parametrize("sampler", [SamplerChain().greedy(), SamplerChain().top_k(5).dist(1)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_logits_fail_their_own_request(load: Load, monkeypatch: pytest.MonkeyPatch,
                                           sampler: SamplerChain, bad: float) -> None:
    """Rows of logits are spoiled where the device chooses among them."""
    from unladen.graph.ops import get_op

    model = load(**EXACT)
    expected = whole_rows(load(**EXACT)).generate([5, 6], max_tokens=4, sampler=sampler).tokens
    for op in ("argmax", "top_k"):
        reference = get_op(op).reference

        def spoiled(node: Any, inputs: Any, ctx: Any, of: Any = reference) -> Any:
            inputs[0][1:, 3] = bad
            return of(node, inputs, ctx)
        monkeypatch.setattr(get_op(op), "reference", spoiled)
    streams = [model.stream(p, max_tokens=4, sampler=sampler) for p in ([5, 6], [7, 8])]
    with pytest.raises(BadLogits):
        list(streams[1])
    list(streams[0])
    assert streams[0].result.tokens == expected
    check_idle(model)
