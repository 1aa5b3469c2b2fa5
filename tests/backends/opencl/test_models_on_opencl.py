"""Whole models on the device: the reference text, other engines' logits, splits, the CPU's text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import SHARED
from tests.parity import recipes
from tests.parity.recipes import answer, error

from unladen import Model

DEVICE = ["opencl:0"]
F32 = ("stories260K-f32", "tinystories656K-f32", "tinystories656K-qwen2-f32",
       "makemore-induction-gpt2-f32")
EXACT_CACHE, F16_CACHE = 1e-8, 1e-5
ALL = "UNLADEN_TEST_ALL" in os.environ
"""Whether to run every recipe and every shared model: half an hour."""
OTHERS = sorted(path.stem for path in (SHARED / "models").glob("*.gguf") if path.stem not in F32)
SOME = ["stories260K-q8_0", "stories260K-q4_0", "tinystories656K-bf16", "tinystories656K-iq4_nl",
        "tinystories656K-pad256-q4_k_m", "tinystories656K-pad256-q5_k_m",
        "tinystories656K-pad256-q6_k", "tinystories656K-pad256-iq2_s", "tinystories656K-moe-q8_0"]


@pytest.mark.parametrize("name", F32)
def test_f32_token_for_token(shared: Path, name: str) -> None:
    cases = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"]
    with Model(shared / f"models/{name}.gguf", devices=DEVICE, kv_type="f32") as model:
        assert {line.split()[2] for line in model.placement().splitlines()} == {"opencl:0"}
        for case in cases:
            result = model.generate(case["prompt"], temperature=0.0, logprobs=0,
                                    max_tokens=len(case["tokens"]))
            assert (result.tokens, result.text) == (case["tokens"], case["text"])
            assert result.logprobs is not None
            for mine, expected in zip(result.logprobs, case["token_logprobs"], strict=True):
                assert abs(mine.logprob - expected) < 1e-3


@pytest.mark.parametrize("name", OTHERS if ALL else SOME)
def test_the_same_text_as_the_cpu(shared: Path, name: str) -> None:
    """``precise``, so that no device rounds activations."""
    path = shared / f"models/{name}.gguf"
    texts = {}
    for device in ("cpu", "opencl:0"):
        with Model(path, devices=[device], kv_type="f32", precise=True) as model:
            texts[device] = model.generate("Once upon a time", temperature=0.0, max_tokens=48).text
    assert texts["cpu"] == texts["opencl:0"] and texts["cpu"]


@pytest.mark.parametrize("devices", [["cpu:0", "opencl:0"], ["opencl:0", "opencl:1"],
                                     ["wgpu:0", "opencl:0"]])
def test_split_at_every_layer(shared: Path, devices: list[str]) -> None:
    from unladen.backends import backend_of
    if any(not backend_of(d).devices() for d in devices):
        pytest.skip("a device is missing")
    name = "stories260K-f32"
    case = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"][0]
    for n in range(1, 5, 2):
        options = ({"n_gpu_layers": n} if devices[0] == "cpu:0" else
                   {"tensor_split": [5 - n, n]})
        with Model(shared / f"models/{name}.gguf", devices=devices, kv_type="f32",
                   **options) as model:
            used = {line.split()[2] for line in model.placement().splitlines()}
            result = model.generate(case["prompt"], temperature=0.0, max_tokens=24)
        assert used == set(devices)
        assert result.tokens == case["tokens"][:24]


def test_three_backends_in_one_model(shared: Path) -> None:
    """The CPU's first layers, then those of wgpu and of opencl."""
    from unladen.backends import backend_of
    if not backend_of("wgpu").devices():
        pytest.skip("wgpu has no device")
    name = "stories260K-f32"
    case = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"][0]
    with Model(shared / f"models/{name}.gguf", devices=["wgpu:0", "opencl:0", "cpu:0"],
               kv_type="f32", n_gpu_layers=4, tensor_split=[1, 1]) as model:
        used = {line.split()[2] for line in model.placement().splitlines()}
        result = model.generate(case["prompt"], temperature=0.0, max_tokens=24)
    assert used == {"cpu:0", "wgpu:0", "opencl:0"}
    assert result.tokens == case["tokens"][:24]


def test_experts_and_recurrent_states(shared: Path, make_model: Callable[..., Path]) -> None:
    """A step of many tokens and steps of one, against the reference."""
    paths = [make_model("qwen3moe", n_embd=64, n_experts=4, n_used=2),
             *(shared / f"models/{name}.gguf" for name in ("rwkv6-1m-f32", "rwkv7-834K-f32"))]
    for path in paths:
        prompt = list(range(3, 60))
        found = {}
        for device in ("reference", "opencl:0"):
            with Model(path, kv_type="f32", devices=[device]) as model:
                assert {line.split()[2] for line in model.placement().splitlines()} == {
                    f"{device.partition(':')[0]}:0"}
                found[device] = (model.logits(prompt),
                                 model.generate(prompt, temperature=0.0, max_tokens=6).tokens)
        assert error(found["opencl:0"][0], found["reference"][0]) < EXACT_CACHE
        assert found["opencl:0"][1] == found["reference"][1]


@pytest.mark.long
@pytest.mark.parametrize("name", recipes.names()[::1 if ALL else 10])
def test_recipes(shared: Path, name: str, tmp_path: Path) -> None:
    """Every tenth, since PoCL takes long to compile kernels."""
    recipe = recipes.make(name, tmp_path)
    for batch_size, kv_type, bound in ((512, "f32", EXACT_CACHE), (7, "f16", F16_CACHE)):
        with Model(recipe.path, devices=DEVICE, kv_type=kv_type, batch_size=batch_size) as model:
            assert error(answer(model, recipe.tokens), recipe.expected) < bound


def test_an_8_bit_cache_and_shared_prefixes(make_model: Callable[..., Path]) -> None:
    """Several sequences in a step, blocks that two of them share and one copies."""
    path = make_model("llama", n_embd=128, n_heads=4, n_kv_heads=2)
    prompt = list(range(3, 60))
    found = {}
    for device in ("reference", "opencl:0"):
        with Model(path, devices=[device], kv_type="q8_0") as model:
            first = model.logits(prompt)
            streams = [model.stream(prompt + more, max_tokens=4, temperature=0.0)
                       for more in ([], [7], [8, 9])]
            requests = [stream._request for stream in streams]
            for request in requests:
                model.engine.finish(request)
            assert requests[-1].n_reused
            found[device] = first, [r.tokens for r in requests]
    assert error(found["opencl:0"][0], found["reference"][0]) < F16_CACHE
    assert found["opencl:0"][1] == found["reference"][1]


def test_dispatches_of_a_decode_step(make_model: Callable[..., Path]) -> None:
    """The model has 16 layers, like models of 1B."""
    path = make_model("llama", n_layers=16, quant="Q8_0")
    with Model(path, devices=DEVICE, context_size=128) as model:
        model.generate([3] * 30, temperature=0.0, max_tokens=2)
        ((_, program),) = model.engine.plan._programs
        sizes = {size for alike in program.sized.values() for size in alike if size.is_decode}
        n = max(sum(d.grid(size) is not None for d in program.dispatches) for size in sizes)
    assert n <= 7 * 16 + 10
