"""Plans compute the same results wherever their parts are placed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiny_model import N_VOCAB, write_tiny
from tiny_plan import LAYOUT, LIMITS, N_LAYERS, Feed, Tiny, fill, open_tiny
from unladen.errors import Cancelled
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.types import Limits


def test_explain_names_every_node(tiny: Tiny) -> None:
    plan = tiny.plan("cpu:0", "null:0", place=PlaceOptions(
        n_gpu_layers=1, override_tensor={"blk.0.ffn_down": "cpu"}))
    lines = {line.split()[0]: line.split()[1:] for line in plan.explain().splitlines()}
    assert set(lines) == {n.name for n in plan.blueprint.graph.nodes}
    assert lines["blk.0.attn_qkv"] == ["linear", "null:0", "layer", "0"]
    assert lines["blk.0.ffn_out"] == ["linear", "cpu:0", "override", "blk.0.ffn_down"]
    assert lines["logits"] == ["linear", "cpu:0", "with", "the", "last", "layer"]


@pytest.mark.parametrize("border", range(1, N_LAYERS))
def test_cut_between_any_layers(tiny: Tiny, tokens: list[int], feed: Feed, border: int) -> None:
    whole = feed(tiny.plan("cpu:0"), tokens)
    assert whole.shape == (len(tokens), N_VOCAB) and np.isfinite(whole).all()
    place = PlaceOptions(tensor_split=[border, N_LAYERS - border])
    plan = tiny.plan("cpu:0", "cpu:1", place=place)
    assert {d.name for d, _ in plan.blueprint.device_of.values()} == {"cpu:0", "cpu:1"}
    assert np.array_equal(feed(plan, tokens), whole)


def test_cut_inside_every_layer(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    place = PlaceOptions(split_mode="none", override_tensor={"ffn_|token_embd": "cpu:1"})
    assert np.array_equal(feed(tiny.plan("cpu:0", "cpu:1", place=place), tokens),
                          feed(tiny.plan("cpu:0"), tokens))


def test_with_the_reference(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    """Fused on the CPU, plain on the reference, and cut between both."""
    expected = feed(tiny.plan("reference:0"), tokens)
    for names in (("cpu:0",), ("cpu:0", "reference:0"), ("reference:0", "cpu:0")):
        got = feed(tiny.plan(*names), tokens)
        # A few thousand float32 roundings, each 2**-24 of values of the size of the logits.
        assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()


def test_copied_weights(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    assert np.array_equal(feed(tiny.plan("cpu:0", use_mmap=False), tokens),
                          feed(tiny.plan("cpu:0"), tokens))


def test_copied_block(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    """The same tokens in copied blocks give the same next logits, on both sides of a cut."""
    plan = tiny.plan("cpu:0", "cpu:1")
    expected = feed(plan, tokens)[-1]
    table = (6, 7, 4, 2)
    for source, target in zip((3, 1, 5), table, strict=False):
        plan.copy_block(target, source)
    fill(plan, tokens[-1:], len(tokens) - 1, table)
    plan.run()
    assert np.array_equal(plan.output("logits")[0], expected)


def test_null_devices_run(tiny: Tiny) -> None:
    plan = tiny.plan("cpu:0", "null:0", place=PlaceOptions(n_gpu_layers=2))
    fill(plan, [5, 6, 7], 0)
    plan.run()
    assert plan.output("logits").shape == (3, N_VOCAB)
    plan.copy_block(1, 0)


def test_cancel_from_another_thread(tmp_path: Path, rng: np.random.Generator) -> None:
    tiny = open_tiny(write_tiny(tmp_path / "m.gguf", rng, n_layers=3, n_embd=256, context=4096))
    limits = Limits(4096, 1, 1, 512, 512)
    layout = replace(LAYOUT, n_blocks=512)
    plan = tiny.made(make_blueprint(tiny.graph, limits, layout,
                                    PlanOptions(("cpu:0", "cpu:1")))).main
    tokens = rng.integers(3, N_VOCAB, 4096).tolist()
    fill(plan, tokens, 0, tuple(range(512)), outputs=(4095,))
    plan.run()
    expected = plan.output("logits").copy()

    stop = threading.Event()

    def canceller() -> None:
        while not stop.wait(0.001):
            plan.cancel()
    thread = threading.Thread(target=canceller)
    thread.start()
    try:
        with pytest.raises(Cancelled):
            plan.run()
    finally:
        stop.set()
        thread.join()
    plan.run()
    assert np.array_equal(plan.output("logits"), expected)


def test_cancel_before_a_run_is_void(tiny: Tiny) -> None:
    plan = tiny.plan("cpu:0")
    plan.cancel()
    fill(plan, [5], 0)
    plan.run()
    assert LIMITS.n_outputs >= len(plan.output("logits")) == 1
