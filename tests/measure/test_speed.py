"""Timings count the right tokens and leave the model unchanged."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import Model
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.measure import speed
from unladen.measure.speed import Result, measure
from unladen.measure.speed import Test as Timing


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Model:
    return Model(write_tiny(tmp_path / "m.gguf", rng), context_size=64, batch_size=16)


def test_every_prompt_and_generation_at_every_depth() -> None:
    found = list(speed.tests([8, 0, 16], [4], [0, 32], [1]))
    assert [t.name for t in found] == ["pp8", "pp16", "tg4", "pp8 @ d32", "pp16 @ d32", "tg4 @ d32"]
    assert [t.n_tokens for t in found] == [8, 16, 4] * 2


def test_sequences_that_generate_together() -> None:
    (alone, three) = speed.tests([], [4], [30], [1, 3])
    assert (three.name, three.n_tokens) == ("tg4 x3 @ d30", 12)
    assert (alone.context, three.context) == (34, 3 * 64)


def test_rates_follow_from_the_samples() -> None:
    result = Result(Timing(100, 0, 0), [10**9, 2 * 10**9])
    assert result.samples_ts == [100.0, 50.0]
    assert result.avg_ts == 75.0
    assert result.stddev_ts == pytest.approx(statistics.stdev([100.0, 50.0]))
    assert Result(Timing(0, 1, 0), [5]).stddev_ts == 0.0


@pytest.mark.parametrize(("test", "wanted"), [
    (Timing(40, 0, 0), [16, 16, 8]),
    (Timing(0, 3, 0), [1, 1, 1]),
    (Timing(0, 2, 20), [16, 4, 1, 1]),
    (Timing(0, 3, 5, 2), [5, 5, 2, 2, 2]),
])
def test_steps_are_those_of_the_test(model: Model, monkeypatch: pytest.MonkeyPatch, test: Timing,
                                     wanted: list[int]) -> None:
    plan = model.engine.plan
    run, steps = plan.run, []

    def counted() -> None:
        steps.append(plan.batch.n_tokens)
        run()

    monkeypatch.setattr(plan, "run", counted)
    assert len(measure(model, test, 2).samples_ns) == 2
    assert steps == wanted * 3, "the first repetition isn't counted"


def test_model_answers_as_before(model: Model) -> None:
    before = model.generate("abc", max_tokens=8, temperature=0.0).tokens
    measure(model, Timing(32, 0, 8), 1)
    assert model.generate("abc", max_tokens=8, temperature=0.0).tokens == before


def test_more_than_the_context(model: Model) -> None:
    with pytest.raises(ContextOverflow):
        measure(model, Timing(60, 0, 5), 1)
    with pytest.raises(ContextOverflow):
        measure(model, Timing(0, 1, 32, 2), 1)


def test_more_sequences_than_a_step_holds(model: Model) -> None:
    with pytest.raises(InvalidArgument, match="at most"):
        measure(model, Timing(0, 1, 0, 1000), 1)
