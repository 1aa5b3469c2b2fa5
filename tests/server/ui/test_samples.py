"""Samples of the last seconds, compared with a list of all that were taken."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from server.scripted import CARD
from unladen.server.core import Card
from unladen.server.ui import samples
from unladen.server.ui.samples import Samples
from unladen.server.ui.shapes import Sample

COLUMNS = ("time", "decode_tps", "prefill_tps", "running", "waiting", "prompt_tokens",
           "cached_tokens")


def card(rng: np.random.Generator, devices: tuple[str, ...]) -> Card:
    counts: Any = {name: int(rng.integers(2**40)) for name in (
        "n_prefilled", "n_written", "n_prompt", "n_cached", "running", "waiting")}
    made: Card = replace(CARD, plan={"a": 1}, device_bytes={
        name: int(rng.integers(2**40)) for name in devices}, **counts)
    return made


def test_columns_are_those_of_the_samples(rng: np.random.Generator,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "KEPT", 50)
    now = 1e9
    monkeypatch.setattr(time, "time", lambda: now)
    kept, taken = Samples(), list[Sample]()
    assert kept.columns(3600)["time"] == [] and kept.columns(3600)["bytes"] == {}
    for i in range(300):
        now += float(rng.uniform(0.5, 1.5))
        devices = ("cpu:0", *(["gpu:0"] if i < 40 or i == 120 else []))
        taken.append(kept.take([card(rng, devices), replace(CARD, n_written=5)]))
        for seconds in (0.0, 7.5, 20.0, 3600.0):
            columns: Any = kept.columns(seconds)
            wanted = [each for each in taken[-50:] if each["time"] >= now - seconds]
            for name in COLUMNS:
                listed: list[Any] = [dict(each)[name] for each in wanted]
                assert columns[name] == listed
            names = {name for each in wanted for name in each["bytes"]}
            assert columns["bytes"] == {
                name: [each["bytes"].get(name, 0) for each in wanted] for name in names}


def test_samples_take_their_memory_at_the_start(rng: np.random.Generator) -> None:
    cards = [card(rng, ("cpu:0", "gpu:0"))]
    kept = Samples()
    kept.take(cards)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2 * samples.KEPT):
            kept.take(cards)
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
    assert len(kept.columns(3600.0)["time"]) == samples.KEPT


def test_a_device_that_is_no_more_is_forgotten(rng: np.random.Generator) -> None:
    kept = Samples()
    for i in range(samples.KEPT + 20):
        kept.take([card(rng, (f"cpu:{i}",) if i < 10 else ("cpu:0",))])
    assert set(kept.columns(3600.0)["bytes"]) == {"cpu:0"}
