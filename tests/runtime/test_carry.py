"""Weights, caches and state that one plan leaves to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runtime.conftest import SLOW, USUAL
from tiny_plan import LAYOUT, LIMITS, N_LAYERS, Feed, Tiny, fill
from unladen.errors import OutOfMemory
from unladen.runtime.carry import Kept
from unladen.runtime.plan import Plan
from unladen.runtime.plan_set import PlanSet
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.blueprint_set import BlueprintSet
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.schedule.search import device_speed
from unladen.types import MAIN

BIGGER = replace(LIMITS, n_blocks_per_seq=6, n_blocks=12), replace(LAYOUT, n_blocks=12)


def follow(tiny: Tiny, old: PlanSet, *devices: str, sizes: Any = (LIMITS, LAYOUT), **options: Any
           ) -> Plan:
    blueprint = make_blueprint(tiny.graph, *sizes, PlanOptions(devices, **options))
    return tiny.made(blueprint, old.keep()).main


def last_logits(plan: Plan, tokens: list[int]) -> Any:
    """The logits of the last token; the tokens before it are in the cache already."""
    fill(plan, tokens[-1:], len(tokens) - 1)
    plan.run()
    return plan.output("logits")[0].copy()


@pytest.mark.parametrize("devices", [("cpu:0",), ("cpu:1",), ("cpu:0", "cpu:1"),
                                     ("reference:0",), ("reference:0", "cpu:0")])
@pytest.mark.parametrize("sizes", [(LIMITS, LAYOUT), BIGGER])
def test_the_past_goes_along(tiny: Tiny, tokens: list[int], feed: Feed, devices: tuple[str, ...],
                             sizes: Any) -> None:
    old = tiny.plans("cpu:0")
    expected = feed(old.main, tokens)[-1]
    new = follow(tiny, old, *devices, sizes=sizes)
    assert new.continues_cache
    got = last_logits(new, tokens)
    assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.array_equal(last_logits(old.main, tokens), expected), "the old one still works"


@pytest.mark.parametrize("layout", [
    replace(LAYOUT, n_blocks=7), replace(LAYOUT, block_tokens=4), replace(LAYOUT, k_type="F16"),
    replace(LAYOUT, v_type="F16")])
def test_what_does_not_fit_is_left(tiny: Tiny, tokens: list[int], feed: Feed, layout: Any) -> None:
    old = tiny.plans("cpu:0")
    feed(old.main, tokens)
    new = follow(tiny, old, "cpu:0", sizes=(LIMITS, layout))
    assert not new.continues_cache
    for kv in new._kv.values():
        assert not kv.k.data.any()  # type: ignore[attr-defined]


def test_nothing_is_copied_that_stays(tiny: Tiny) -> None:
    place = PlaceOptions(n_gpu_layers=2)
    old = tiny.plans("cpu:0", "null:0", place=place, use_mmap=False)
    new = follow(tiny, old, "cpu:0", "null:0", place=PlaceOptions(n_gpu_layers=1), use_mmap=False)
    for layer in range(N_LAYERS):
        assert (new._kv[layer] is old.main._kv[layer]) == (layer != 1)
    moved = {name for key, p in new._placed.items() for name in [key[1]]
             if old.main._placed.get(key) is not p}
    assert moved and all(name.startswith("blk.1.") for name in moved)


@pytest.mark.parametrize(("speed", "streams"), [(USUAL, False), (SLOW, True)])
def test_what_stays_follows_the_measured_speed(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch, speed: tuple[float, float], *, streams: bool
        ) -> None:
    """The same placement again keeps each weight, also where "auto" streams some of them."""
    monkeypatch.setattr(device_speed, "measure", lambda name: speed)
    place = PlaceOptions(n_gpu_layers=2)
    old = tiny.plans("cpu:0", "null:0", place=place, use_mmap=False)
    assert (old.main.blueprint.streamed is not None) == streams
    new = follow(tiny, old, "cpu:0", "null:0", place=place, use_mmap=False)
    assert (new.blueprint.streamed is not None) == streams
    assert all(old.main._placed[key] is placed for key, placed in new._placed.items())


def test_shared_bytes_are_those_not_allocated(tiny: Tiny) -> None:
    place = PlaceOptions(n_gpu_layers=2)
    old = tiny.plans("cpu:0", "null:0", place=place, use_mmap=False)
    for n in range(N_LAYERS + 1):
        blueprint = BlueprintSet.of({MAIN: make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions(
            ("cpu:0", "null:0"), place=PlaceOptions(n_gpu_layers=n), use_mmap=False))})
        kept = old.keep()
        shared = kept.shared_bytes(blueprint)
        new = tiny.made(blueprint.main, kept).main
        both = {id(b): b for p in (*new._placed.values(),) for b in [p.buffer]}
        both |= {id(b): b for kv in new._kv.values() for b in (kv.k, kv.v)}
        before = {id(p.buffer) for p in old._placed.values()}
        before |= {id(b) for kv in old.main._kv.values() for b in (kv.k, kv.v)}
        for name in ("cpu:0", "null:0"):
            assert shared.get(name, 0) == sum(b.nbytes for key, b in both.items()
                                              if key in before and b.device.name == name)
    assert Kept().shared_bytes(old.blueprint) == {}


def test_surrendered(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    plans = tiny.plans("cpu:0")
    expected = feed(plans.main, tokens)[-1]
    error = OutOfMemory(device="cpu:0", requested=5, free=3, hint="try")
    kept = plans.surrender(error)
    for _ in range(2):
        with pytest.raises(OutOfMemory, match="asked for 5 bytes, 3 free") as caught:
            plans.main.run()
        assert caught.value.hint == "try" and caught.value is not error
    again = tiny.made(plans.blueprint.main, kept).main
    assert np.array_equal(last_logits(again, tokens), expected)
