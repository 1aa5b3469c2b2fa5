"""What prompts took of the arenas goes back once they are over, and nothing misses it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.conftest import Load
from tiny_model import N_VOCAB
from unladen.backends.base import Buffer
from unladen.backends.cpu import CpuBackend
from unladen.schedule.plan import MUCH_LARGER, SMALL_STEPS, Plan

OPTIONS = {"devices": ["cpu"], "batch_size": 64, "speculate": False}


def test_once_after_each_prompt(load: Load, rng: np.random.Generator,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [rng.integers(3, N_VOCAB, n).tolist() for n in (100, 90)]
    wanted = {"max_tokens": 2 * SMALL_STEPS + 2, "temperature": 0.0, "ignore_eos": True}
    expected = [load(**OPTIONS).generate(p, **wanted).tokens for p in prompts]
    events: list[int] = []
    run = Plan.run

    def watched(plan: Plan) -> None:
        events.append(plan.batch.n_tokens)
        run(plan)

    def spoilt(_backend: CpuBackend, buffer: Buffer) -> None:
        events.append(0)
        buffer.data.fill(0xFF)  # type: ignore[attr-defined]
    monkeypatch.setattr(Plan, "run", watched)
    monkeypatch.setattr(CpuBackend, "discard", spoilt)
    model = load(**OPTIONS)
    assert [model.generate(p, **wanted).tokens for p in prompts] == expected
    large = [i for i, n in enumerate(events) if n * MUCH_LARGER > OPTIONS["batch_size"]]
    discarded = [i for i, n in enumerate(events) if n == 0]
    assert len(discarded) == len(prompts)
    for i in discarded:  # the event before it is the step that begins with it
        assert max(j for j in large if j < i) == i - SMALL_STEPS - 1
