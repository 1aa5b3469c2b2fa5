"""Sizes that follow from wishes: context, blocks, step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_model import N_VOCAB, write_tiny
from unladen.assembly import setup
from unladen.assembly.sources import Sources
from unladen.backends.base import KVLayout
from unladen.errors import InvalidArgument
from unladen.gguf import GGUFFile, open_gguf
from unladen.models import load_architecture
from unladen.runtime.plan import Plan
from unladen.schedule import fit
from unladen.schedule.options import PlanOptions
from unladen.types import MAIN

TRAINED = 100

SIZES: setup.StepSizes = {"context_size": None, "batch_size": 512, "max_seqs": 8,
                          "kv_type": "f16", "cache_tokens": None}


@pytest.fixture
def file(tmp_path: Path, rng: np.random.Generator) -> Iterator[GGUFFile]:
    with open_gguf(write_tiny(tmp_path / "tiny.gguf", rng, context=TRAINED)) as opened:
        yield opened


def plan(file: GGUFFile, **wishes: Any) -> tuple[Plan, int]:
    options: dict[str, Any] = {"context_size": None, "batch_size": 512, "max_seqs": 8,
                               "kv_type": "f16", "cache_tokens": None, **wishes}
    plans, context = setup.make_plans(Sources(file), {MAIN: load_architecture(file)},
                                      PlanOptions(), **options)
    return plans.main, context


def test_defaults_are_what_the_model_was_trained_for(file: GGUFFile) -> None:
    made, context = plan(file)
    limits = made.blueprint.limits
    assert context == TRAINED
    assert limits.n_blocks_per_seq == 4, "blocks of 32 hold 100 tokens"
    assert limits.n_blocks == 8 * 4, "each sequence may fill its context"
    assert (limits.n_tokens, limits.n_seqs, limits.n_outputs) == (TRAINED, 8, TRAINED)
    assert made.blueprint.layout.k_type == made.blueprint.layout.v_type == "F16"


def test_wishes(file: GGUFFile, caplog: pytest.LogCaptureFixture) -> None:
    made, context = plan(file, context_size=50, batch_size=3, max_seqs=9, kv_type=("F16", "f32"))
    assert context == 50 and not caplog.records
    limits, layout = made.blueprint.limits, made.blueprint.layout
    assert (limits.n_tokens, limits.n_seqs, limits.n_blocks) == (3, 3, 2 * 3)
    assert (layout.k_type, layout.v_type) == ("F16", "F32")


def test_the_size_of_the_cache(file: GGUFFile) -> None:
    for wishes, context, n_blocks in (
            ({"cache_tokens": 64, "context_size": 64}, 64, 2), ({"cache_tokens": 65}, 65, 3),
            ({"cache_tokens": 5000}, TRAINED, 157),
            ({"cache_tokens": 90, "context_size": 33}, 33, 3)):
        made, found = plan(file, **wishes)
        assert (found, made.blueprint.limits.n_blocks) == (context, n_blocks), wishes
        assert made.blueprint.limits.n_blocks_per_seq == -(-context // 32)
        per_block = 3 * 2 * 32 * 32 * 2  # layers, K and V, two heads of 16, 32 tokens, float16
        (memory,) = made.blueprint.memory.devices
        assert memory.kv_bytes == n_blocks * per_block
    with pytest.raises(InvalidArgument, match="cache_tokens=63 is less than context_size=64"):
        plan(file, cache_tokens=63, context_size=64)


def test_the_cache_leaves_memory_to_others(file: GGUFFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache takes half of the memory that the plan leaves; pages of the file count as taken."""
    per_block = 3 * 2 * 32 * 32 * 2
    one = setup.blueprint_for({MAIN: load_architecture(file)}, PlanOptions(), context_size=64,
                              batch_size=8, max_seqs=8, kv_type="f16", cache_tokens=None)[0]
    (memory,) = one.memory.devices
    for n_more in (0, 3, 13, 14, 100):
        left = 2 * n_more * per_block + per_block
        monkeypatch.setattr(setup.fit, "free_bytes", lambda devices, n=left: {
            "cpu:0": memory.needed_bytes + memory.mapped_bytes + n})
        limits = setup.with_pool(one).main.limits
        assert limits.n_blocks == min(2 + n_more, 16)
    monkeypatch.setattr(setup.fit, "free_bytes", lambda devices: {"cpu:0": 0})
    assert setup.with_pool(one).main.limits.n_blocks == 2, "one context always"


def test_longer_than_trained(file: GGUFFile, caplog: pytest.LogCaptureFixture) -> None:
    assert plan(file, context_size=101)[1] == 101
    (record,) = caplog.records
    assert "context_size=101 is more than the 100 tokens" in record.message


def test_logits_of_a_step_are_bounded(file: GGUFFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "MAX_LOGITS_BYTES", 20 * 4 * N_VOCAB)
    assert plan(file)[0].blueprint.limits.n_outputs == 20
    monkeypatch.setattr(setup, "MAX_LOGITS_BYTES", 1)
    assert plan(file)[0].blueprint.limits.n_outputs == 8, "but every sequence has its own"


def test_context_shrinks_where_memory_is_short(file: GGUFFile, monkeypatch: pytest.MonkeyPatch,
                                               caplog: pytest.LogCaptureFixture) -> None:
    per_token = 3 * 2 * 32 * 2  # layers, K and V, two heads of 16, float16
    monkeypatch.setattr(setup, "free_host_bytes", lambda: 2 * 70 * per_token)
    architecture = load_architecture(file)
    assert setup._context([architecture.build()], TRAINED, None, SIZES, "F16", "F16") == 64
    (record,) = caplog.records
    assert "64 tokens instead of the model's 100" in record.message
    assert setup._context([architecture.build()], TRAINED, 90, SIZES, "F16", "F16") == 90


def test_windows_take_less_of_the_context(make_model: Callable[..., Path],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_model("granite_swa", n_layers=3, keys={
        "granite_swa.context_length": 4096, "granite_swa.attention.sliding_window": 40,
        "granite_swa.attention.sliding_window_pattern": [True, False, True]})
    with open_gguf(path) as file:
        graph = load_architecture(file).build()
        each = sum(fit.kv_bytes(graph.states()[0], KVLayout(1, 1, "F16", "F16")))
        monkeypatch.setattr(setup, "free_host_bytes", lambda: 2 * 3 * each * 1024)
        sizes: setup.StepSizes = {**SIZES, "max_seqs": 2, "batch_size": 64}
        # A window takes 2 sequences x 6 blocks and 2 more: the layer in between has the rest.
        assert setup._context([graph], 4096, None, sizes, "F16", "F16") == 3 * 1024 - 2 * 14 * 32
