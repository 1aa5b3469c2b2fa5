"""Keys and tensors that change an architecture and that no recipe has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen import Model
from unladen.errors import GGUFError
from unladen.gguf import HParams, open_gguf
from unladen.graph.graph import Graph
from unladen.models import load_architecture
from unladen.models._parts.heads import sliding_layers

Make = Callable[..., Path]


def build(path: Path, context: int | None = None) -> Graph:
    return load_architecture(open_gguf(path)).build(context)


@pytest.mark.parametrize(("value", "expected"), [
    (None, "yyyn"), (2, "ynyn"), (0, "yyyy"), (1, "nnnn")])
def test_windows_by_period(value: int | None, expected: str) -> None:
    keys: dict[str, Any] = {"general.architecture": "x"}
    if value is not None:
        keys["x.attention.sliding_window_pattern"] = value
    found = sliding_layers(HParams(keys), 4, 4)
    assert "".join("ny"[f] for f in found) == expected
    assert sliding_layers(HParams({"general.architecture": "x"}), 4, 3, dense_first=True) == [
        False, True, True, False]


@pytest.mark.parametrize("flags", [[1, 0], [True, False]])
def test_windows_by_layer(flags: list[Any], make_model: Make) -> None:
    keys = {"granite_swa.attention.sliding_window_pattern": flags,
            "granite_swa.attention.sliding_window": 7, "granite_swa.logit_scale": 2.0}
    nodes = [n for n in build(make_model("granite_swa", keys=keys)).nodes if n.op == "attention"]
    assert [n.attrs.get("window", 0) for n in nodes] == [7, 0]


@pytest.mark.parametrize(("arch", "key", "value"), [
    ("granite_swa", "attention.sliding_window_pattern", [1, 0, 1]),
    ("granite_swa", "attention.sliding_window_pattern", [1, 2]),
    ("granite_swa", "attention.sliding_window", 0), ("nanbeige", "num_loops", 0),
    ("nanbeige", "num_loops", 1 << 30), ("hrm_text", "hrm.h_cycles", 3),
    ("hrm_text", "hrm.l_cycles", 0), ("gemma4", "attention.shared_kv_layers", 2),
    ("gemma4", "attention.shared_kv_layers", 9), ("deci", "attention.head_count", [4, -1])])
def test_numbers_that_make_no_sense(arch: str, key: str, value: Any, make_model: Make) -> None:
    keys = {f"{arch}.attention.sliding_window": 8, f"{arch}.hrm.layers_per_stack": 1,
            f"{arch}.hrm.h_cycles": 1, f"{arch}.hrm.l_cycles": 1, f"{arch}.{key}": value}
    with pytest.raises(GGUFError):
        build(make_model(arch, keys=keys))


def test_layers_taken_away(make_model: Make) -> None:
    keys = {"deci.attention.head_count": [0, 4], "deci.attention.head_count_kv": [0, 0],
            "deci.feed_forward_length": [64, 0], "deci.attention.key_length": 8}
    gone = [f"blk.{i}.{part}.weight" for i, parts in enumerate((
        ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
        ("attn_q", "attn_k", "attn_v", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")))
        for part in parts]
    graph = build(make_model("deci", keys=keys, without=gone))
    assert [n.name for n in graph.nodes if n.op == "linear" and n.layer >= 0] == [
        "blk.0.ffn_gate_up", "blk.0.ffn_out", "blk.1.attn_out"]
    assert not graph.states()
    whole = [f"blk.1.{part}.weight" for part in ("attn_norm", "attn_output")]
    nothing = {**keys, "deci.attention.head_count": [0, 0]}
    graph = build(make_model("deci", keys=nothing, without=[*gone, *whole]))
    assert not [n for n in graph.nodes if n.layer == 1]  # a layer that does nothing
    for kept in gone[4], gone[-1]:
        with pytest.raises(GGUFError, match=f"says that there is no {kept}"):
            build(make_model("deci", keys=keys, without=[name for name in gone if name != kept]))


def test_layers_run_through_twice(make_model: Make, rng: np.random.Generator) -> None:
    path = make_model("nanbeige", keys={"nanbeige.num_loops": 2})
    graph = build(path)
    assert len(graph.states()) == graph.n_layers == 4
    assert len(graph.weights()) == len(build(make_model("nanbeige")).weights())
    tokens = [int(t) for t in rng.integers(0, 272, 11)]
    with Model(path, kv_type="f32") as cpu, Model(path, kv_type="f32",
                                                  devices=["reference"]) as reference:
        expected = reference.logits(tokens)
        assert np.mean((cpu.logits(tokens) - expected) ** 2) < 1e-9 * np.mean(expected ** 2)


def test_factors_for_the_context(make_model: Make) -> None:
    factors = {f"rope_factors_{kind}.weight": np.full(4, value, np.float32)
               for kind, value in (("long", 4.0), ("short", 2.0))}
    path = make_model("phi3", extra=factors,
                      keys={"phi3.rope.scaling.original_context_length": 48})
    for context, factor in ((48, 2.0), (49, 4.0), (None, 4.0)):
        (table,) = (n for n in build(path, context).nodes if n.op == "rope_table")
        freqs = table.attrs["freqs"]
        assert isinstance(freqs, tuple) and freqs[0] == pytest.approx(1 / factor)


def test_temperature_of_far_positions(make_model: Make) -> None:
    keys = {"mistral3.attention.temperature_scale": 0.25,
            "mistral3.rope.scaling.original_context_length": 16}
    scales = [n for n in build(make_model("mistral3", keys=keys)).nodes
              if n.op == "position_scale"]
    assert [(n.attrs["scale"], n.attrs["length"], n.attrs["offset"]) for n in scales] == [
        (0.25, 16, 0)] * 2


@pytest.mark.parametrize(("n_layers", "rotates", "slopes"), [(2, False, 0.0), (32, True, 0.0),
                                                             (40, False, 8.0)])
def test_positions_by_size(n_layers: int, rotates: bool, slopes: float, make_model: Make) -> None:
    nodes = build(make_model("baichuan", n_layers=n_layers)).nodes
    assert any(n.op == "rope" for n in nodes) == rotates
    assert {n.attrs.get("alibi", 0.0) for n in nodes if n.op == "attention"} == {slopes}
