"""Whole models on the device: answers, perplexity, other engines' logits, splits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import SHARED
from tests.parity import recipes
from tests.parity.recipes import answer, error

from unladen import Model
from unladen.measure.perplexity import Evaluation

DEVICE = ["wgpu:0"]
F32 = ("stories260K-f32", "tinystories656K-f32", "tinystories656K-qwen2-f32",
       "makemore-induction-gpt2-f32")
EXACT_CACHE, F16_CACHE = 1e-8, 1e-5
PERPLEXITIES = SHARED / "models/refs/PERPLEXITY_numpy_dequant_f32.txt"


@pytest.mark.parametrize("name", F32)
def test_f32_token_for_token(shared: Path, name: str) -> None:
    cases = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"]
    with Model(shared / f"models/{name}.gguf", devices=DEVICE, kv_type="f32") as model:
        for case in cases:
            result = model.generate(case["prompt"], temperature=0.0, logprobs=0,
                                    max_tokens=len(case["tokens"]))
            assert (result.tokens, result.text) == (case["tokens"], case["text"])
            assert result.logprobs is not None
            for mine, expected in zip(result.logprobs, case["token_logprobs"], strict=True):
                assert abs(mine.logprob - expected) < 1e-3


def _listed() -> list[tuple[str, float]]:
    lines = PERPLEXITIES.read_text().splitlines() if PERPLEXITIES.exists() else []
    found = [(line.split()[0], float(line.rpartition("=")[2])) for line in lines]
    return [(name, value) for name, value in found if (SHARED / f"models/{name}.gguf").exists()]


@pytest.mark.long
@pytest.mark.parametrize(("name", "expected"), _listed())
def test_perplexity(shared: Path, name: str, expected: float) -> None:
    """Weights meet float32 activations here, so every format is held to the tight bound.
    ``precise``: whatever the adapter has."""
    vocabulary = name.partition("-")[0]
    ids = json.loads((shared / f"models/texts/ppl_story.{vocabulary}.ids").read_text())
    with Model(shared / f"models/{name}.gguf", devices=DEVICE, context_size=128,
               precise=True) as model:
        value = Evaluation(model, ids, 128).perplexity().value
    assert value == pytest.approx(expected, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("name", recipes.names())
def test_recipes(shared: Path, name: str, tmp_path: Path) -> None:
    recipe = recipes.make(name, tmp_path)
    for batch_size, kv_type, bound in ((512, "f32", EXACT_CACHE), (512, "f16", F16_CACHE),
                                       (7, "f32", EXACT_CACHE), (1, "f16", F16_CACHE)):
        with Model(recipe.path, devices=DEVICE, kv_type=kv_type, batch_size=batch_size) as model:
            assert error(answer(model, recipe.tokens), recipe.expected) < bound


@pytest.mark.parametrize("devices", [["cpu:0", "wgpu:0"], ["wgpu:0", "wgpu:1"]])
def test_split_at_every_layer(shared: Path, devices: list[str]) -> None:
    name = "stories260K-f32"
    case = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"][0]
    n_tokens = 24
    for n in range(6):
        options = ({"n_gpu_layers": n} if devices[0] == "cpu:0" else
                   {"tensor_split": [5 - n, n]})
        with Model(shared / f"models/{name}.gguf", devices=devices, kv_type="f32",
                   **options) as model:
            assert len(model.architecture.build().states()) == 5
            used = {line.split()[2] for line in model.placement().splitlines()}
            result = model.generate(case["prompt"], temperature=0.0, max_tokens=n_tokens)
        assert used == ({devices[0]} if n == 0 else {devices[1]} if n == 5 else set(devices))
        assert result.tokens == case["tokens"][:n_tokens]


@pytest.mark.parametrize(("arch", "shares"), [("qwen3moe", [1, 1]), ("llama", [1, 3])])
def test_experts_shared_with_the_cpu(make_model: Callable[..., Path], arch: str,
                                     shares: list[float]) -> None:
    path = make_model(arch, n_embd=64, n_experts=7, n_used=3)
    prompt = list(range(3, 40))
    with Model(path, kv_type="f32") as model:
        whole = model.logits(prompt)
        text = model.generate(prompt, temperature=0.0, max_tokens=8).text
    for n in (0, "all"):
        with Model(path, kv_type="f32", devices=["cpu", "wgpu:0"], expert_split=shares,
                   n_gpu_layers=n) as model:
            used = {line.split()[2] for line in model.placement().splitlines() if " moe " in line}
            assert used == {"cpu:0", "wgpu:0"}
            assert error(model.logits(prompt), whole) < EXACT_CACHE
            assert model.generate(prompt, temperature=0.0, max_tokens=8).text == text


@pytest.mark.parametrize("n_gpu_layers", [0, "all"])
def test_perplexity_of_shared_experts(shared: Path, n_gpu_layers: int | str) -> None:
    """Against another engine's."""
    name = "tinystories656K-moe-q8_0"
    (line,) = [s for s in (shared / "models/refs/PERPLEXITY.txt").read_text().splitlines()
               if s.startswith(f"{name} ")]
    expected = float(line.partition("PPL = ")[2].split()[0])
    ids = json.loads((shared / "models/texts/ppl_story.tinystories656K.ids").read_text())
    with Model(shared / f"models/{name}.gguf", devices=["cpu", "wgpu:0"], context_size=128,
               n_gpu_layers=n_gpu_layers, expert_split=[0.5, 0.5]) as model:
        value = Evaluation(model, ids, 128).perplexity().value
    assert value == pytest.approx(expected, rel=2e-2)


@pytest.mark.parametrize(("arch", "n_each"), [("llama", 8), ("qwen3", 9)])
def test_dispatches_of_a_decode_step(make_model: Callable[..., Path], arch: str, n_each: int
                                     ) -> None:
    """The model has 16 layers, like models of 1B; after 300 tokens workgroups share the keys. Heads
    of Qwen3 are normed, which adds one."""
    path = make_model(arch, n_layers=16, quant="Q8_0")
    with Model(path, devices=DEVICE, context_size=512) as model:
        model.generate([3] * 300, temperature=0.0, max_tokens=2)
        ((_, program),) = model.engine.plan._programs
        decode = [parts for alike in program.encoded.values() for size, parts in alike.items()
                  if size.is_decode and size.n_splits > 1]
    (n,) = {sum(map(len, parts)) for parts in decode}
    assert n <= n_each * 16 + 10


def test_an_8_bit_cache_and_shared_prefixes(make_model: Callable[..., Path]) -> None:
    """Several sequences in a step, blocks that two of them share and one copies."""
    path = make_model("llama", n_embd=128, n_heads=4, n_kv_heads=2)
    prompt = list(range(3, 60))
    found = {}
    for device in ("reference", "wgpu:0"):
        with Model(path, devices=[device], kv_type="q8_0") as model:
            first = model.logits(prompt)
            streams = [model.stream(prompt + more, max_tokens=4, temperature=0.0)
                       for more in ([], [7], [8, 9])]
            requests = [stream._request for stream in streams]
            for request in requests:
                model.engine.finish(request)
            assert requests[-1].n_reused
            found[device] = first, [r.tokens for r in requests]
    assert error(found["wgpu:0"][0], found["reference"][0]) < F16_CACHE
    assert found["wgpu:0"][1] == found["reference"][1]
