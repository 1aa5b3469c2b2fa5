"""Once prompts are over, their part of the arenas goes back to the system, and no result
changes."""

from __future__ import annotations

import numpy as np
import pytest

from engine.conftest import Load
from tiny_model import N_VOCAB
from unladen.backends.base import Buffer
from unladen.backends.cpu import CpuBackend
from unladen.runtime.plan import MUCH_LARGER, SMALL_STEPS, Plan

OPTIONS = {"devices": ["cpu"], "batch_size": 64, "speculate": False}


def test_after_each_prompt_and_before_the_next(load: Load, rng: np.random.Generator,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [rng.integers(3, N_VOCAB, n).tolist() for n in (100, 90)]
    wanted = {"max_tokens": 2 * SMALL_STEPS + 2, "temperature": 0.0, "ignore_eos": True}
    expected = [load(**OPTIONS).generate(p, **wanted).tokens for p in prompts]
    events: list[str] = []
    run = Plan.run

    def watched(plan: Plan) -> None:
        is_small = plan.batch.n_tokens * MUCH_LARGER <= OPTIONS["batch_size"]
        events.append("small" if is_small else "large")
        run(plan)

    def spoilt(_backend: CpuBackend, buffer: Buffer, *, densely_used: bool) -> None:
        events.append("back" if densely_used else "forth")
        buffer.data.fill(0xFF)  # type: ignore[attr-defined]
    monkeypatch.setattr(Plan, "run", watched)
    monkeypatch.setattr(CpuBackend, "discard", spoilt)
    model = load(**OPTIONS)
    events.clear()  # a new cache's memory goes back, too
    assert [model.generate(p, **wanted).tokens for p in prompts] == expected
    # Steps are told of before what they begin with.
    smalls = [i for i, event in enumerate(events) if event == "forth"]
    assert len(smalls) == len(prompts)
    for i in smalls:
        assert events[i - SMALL_STEPS - 1:i] == ["large"] + ["small"] * SMALL_STEPS
    (back,) = (i for i, event in enumerate(events) if event == "back")
    assert events[back - 2:back] == ["small", "large"]
