"""Damaged and unknown models raise typed errors that name the fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.errors import GGUFError, UnsupportedModel, UnsupportedQuant
from unladen.gguf import open_gguf
from unladen.graph.graph import Graph
from unladen.models import load_architecture

Make = Callable[..., Path]


def build(path: Path) -> Graph:
    return load_architecture(open_gguf(path)).build()


def test_an_unknown_architecture(make_model: Make) -> None:
    with pytest.raises(UnsupportedModel, match="'abacus'") as error:
        build(make_model("abacus"))
    assert error.value.arch == "abacus"
    assert "llama" in error.value.hint


@pytest.mark.parametrize("name", [
    "token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight", "blk.1.attn_output.weight",
    "blk.1.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.1.ffn_down.weight"])
def test_missing_tensors(name: str, make_model: Make) -> None:
    with pytest.raises(GGUFError, match=f"{name} is missing") as caught:
        build(make_model(without=[name]))
    assert ("another kind of layer" in caught.value.hint) == name.startswith("blk.")


@pytest.mark.parametrize(("arch", "name", "shape"), [
    ("llama", "token_embd.weight", (272, 33)), ("llama", "output.weight", (271, 32)),
    ("llama", "output_norm.weight", (31,)), ("llama", "blk.0.attn_k.weight", (32, 32)),
    ("llama", "blk.1.ffn_down.weight", (64, 32)), ("llama", "blk.0.attn_norm.weight", (1, 32)),
    ("qwen2", "blk.0.attn_q.bias", (33,)), ("qwen3", "blk.1.attn_k_norm.weight", (32,)),
    ("gpt2", "blk.0.attn_qkv.weight", (32, 96)), ("gpt2", "position_embd.weight", (96, 33)),
    ("gpt2", "blk.1.attn_norm.bias", (16,))])
def test_wrong_shapes(arch: str, name: str, shape: tuple[int, ...], make_model: Make) -> None:
    with pytest.raises(GGUFError, match=name) as error:
        build(make_model(arch, shapes={name: shape}))
    assert str(list(shape)) in error.value.message


@pytest.mark.parametrize("name", ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"])
def test_wrong_experts(name: str, make_model: Make) -> None:
    name = f"blk.1.{name}.weight"
    shape = (4, 32) if "inp" in name else (4, 64, 64)
    with pytest.raises(GGUFError, match=name):
        build(make_model("llama", n_experts=5, shapes={name: shape}))


@pytest.mark.parametrize("key", [
    "context_length", "embedding_length", "block_count", "feed_forward_length",
    "attention.head_count", "attention.layer_norm_rms_epsilon"])
def test_missing_keys(key: str, make_model: Make) -> None:
    with pytest.raises(GGUFError, match=rf"llama\.{key} is missing"):
        build(make_model(without=[f"llama.{key}"]))


@pytest.mark.parametrize(("key", "value"), [
    ("block_count", 0), ("block_count", "two"), ("embedding_length", 0), ("context_length", -1),
    ("attention.head_count", 0), ("attention.head_count_kv", 0),
    ("attention.layer_norm_rms_epsilon", "small"), ("attention.key_length", 0),
    ("feed_forward_length", [64, 64, 64]), ("rope.freq_base", 0.0), ("rope.freq_base", -5.0),
    ("rope.freq_base", float("inf")), ("rope.scaling.factor", -2.0),
    ("rope.scaling.attn_factor", 0.0)])
def test_values_that_make_no_sense(key: str, value: Any, make_model: Make) -> None:
    with pytest.raises(GGUFError, match=rf"llama\.{key}"):
        build(make_model(keys={f"llama.{key}": value}))


@pytest.mark.parametrize(("arch", "sizes"), [
    ("llama", {"attention.head_count_kv": 3}), ("llama", {"attention.head_count": 64}),
    ("llama", {"rope.dimension_count": 3}), ("llama", {"rope.dimension_count": 16}),
    ("gpt2", {"attention.head_count": 5}), ("gpt2", {"attention.head_count_kv": 2}),
    ("gpt2", {"attention.key_length": 4}), ("gpt2", {"attention.value_length": 4})])
def test_heads_that_make_no_sense(arch: str, sizes: dict[str, int], make_model: Make) -> None:
    with pytest.raises(GGUFError, match=r"Heads|attn_(qkv|output)\.weight"):
        build(make_model(arch, keys={f"{arch}.{key}": value for key, value in sizes.items()}))


def test_heads_that_contradict_the_tensors(make_model: Make) -> None:
    with pytest.raises(GGUFError, match=r"attn_q\.weight"):
        build(make_model(keys={"llama.attention.key_length": 10}))


@pytest.mark.parametrize(("used", "match"), [(6, "6 of 5 experts"), (0, "expert_used_count")])
def test_experts_that_are_not_there(used: int, match: str, make_model: Make) -> None:
    with pytest.raises(GGUFError, match=match):
        build(make_model(n_experts=5, keys={"llama.expert_used_count": used}))


@pytest.mark.parametrize("kind", ["twisted", "fancy"])
def test_unknown_rope_scaling(kind: str, make_model: Make) -> None:
    with pytest.raises(UnsupportedModel, match=kind):
        build(make_model(keys={"llama.rope.scaling.type": kind}))


@pytest.mark.parametrize(("key", "value"), [("rope.freq_base", 1.0),
                                            ("rope.scaling.yarn_beta_fast", 0.0),
                                            ("rope.scaling.original_context_length", 0)])
def test_yarn_of_nothing(key: str, value: float, make_model: Make) -> None:
    keys = {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0,
            f"llama.{key}": value}
    with pytest.raises(GGUFError, match=r"yarn|original_context_length"):
        build(make_model(keys=keys))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_rope_factors_that_make_no_sense(bad: float, make_model: Make) -> None:
    factors = np.array([1, 2, bad, 4], np.float32)
    with pytest.raises(GGUFError, match="rope_freqs"):
        build(make_model(extra={"rope_freqs.weight": factors}))


def test_a_bias_in_blocks_is_not_cut(make_model: Make, rng: np.random.Generator) -> None:
    name = "blk.0.attn_qkv.bias"
    path = make_model("gpt2", without=[name], extra_blocks={name: ("Q8_0", (96,))})
    with pytest.raises(UnsupportedQuant, match=name):
        build(path)
