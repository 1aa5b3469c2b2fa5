"""Whole models on the emulator: the reference text, other engines' logits, the CPU's text.

Kernels run without checks, but for one model. ``make emulator`` runs every recipe and every shared
model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import SHARED
from tests.parity import recipes
from tests.parity.recipes import answer, error

from emulator import backend as emulator
from unladen import Model
from unladen.backends import backend_of
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.step import Size

DEVICE = ["emulator:0"]
F32 = ("stories260K-f32", "tinystories656K-f32", "tinystories656K-qwen2-f32",
       "makemore-induction-gpt2-f32")
EXACT_CACHE, F16_CACHE = 1e-8, 1e-5
ALL = "UNLADEN_TEST_ALL" in os.environ
"""Whether to run every recipe and every shared model: kernels take long to compile."""
OTHERS = sorted(path.stem for path in (SHARED / "models").glob("*.gguf") if path.stem not in F32)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(emulator.MODE_VARIABLE, "fast")
    with emulator.plugged_in():
        yield


def devices_of(model: Model) -> set[str]:
    return {line.split()[2] for line in model.placement().splitlines()}


@pytest.mark.parametrize("name", F32)
def test_f32_token_for_token(shared: Path, fast: None, name: str) -> None:
    cases = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"]
    with Model(shared / f"models/{name}.gguf", devices=DEVICE, kv_type="f32") as model:
        assert devices_of(model) == {"emulator:0"}
        for case in cases:
            result = model.generate(case["prompt"], temperature=0.0, max_tokens=len(case["tokens"]))
            assert (result.tokens, result.text) == (case["tokens"], case["text"])


@pytest.mark.parametrize("name", OTHERS[::1 if ALL else 5])
def test_the_same_text_as_the_cpu(shared: Path, fast: None, name: str) -> None:
    """``precise``, so that no device rounds activations."""
    texts = {}
    for device in ("cpu", "emulator:0"):
        with Model(shared / f"models/{name}.gguf", devices=[device], kv_type="f32",
                   precise=True) as model:
            assert devices_of(model) == {device.partition(":")[0] + ":0"}
            texts[device] = model.generate("Once upon a time", temperature=0.0, max_tokens=32).text
    assert texts["cpu"] == texts["emulator:0"] and texts["cpu"]


def test_the_same_text_everywhere(shared: Path, fast: None) -> None:
    """On every backend that has a device here."""
    texts = {}
    for device in ("reference:0", "cpu:0", "wgpu:0", "opencl:0", "emulator:0"):
        if backend_of(device).devices() or device.startswith("reference"):
            with Model(shared / "models/stories260K-q8_0.gguf", devices=[device], kv_type="f32",
                       precise=True) as model:
                texts[device] = model.generate("Once upon a time", temperature=0.0,
                                               max_tokens=48).text
    assert {"cpu:0", "emulator:0"} < set(texts) and len(set(texts.values())) == 1, texts


def by_units(model: Model) -> set[str]:
    """The kernels for matrix units that ran, and "wgmma" where four warps multiplied together."""
    ((_, program),) = model.engine.plan._programs
    assert isinstance(program, emulator.EmulatorProgram)
    ran = [d for d in program.ran.values() if d.kernel in c_texts.NVIDIA_ONLY]
    together = {"wgmma" for d in ran if d.constants.get("WGMMA") and "TN" in d.constants}
    return together | {d.kernel for d in ran}


@pytest.mark.parametrize("features", ["subgroups,int_dot,mma", "subgroups,int_dot,mma,wgmma"])
def test_matrix_units(shared: Path, fast: None, features: str, monkeypatch: pytest.MonkeyPatch
                      ) -> None:
    """Weights in tiles, and norms that round rows for them: the CPU's text after a prompt of many
    tokens; where activations are rounded, logits as exact as the CPU's."""
    prompt = 4 * "Once upon a time there was a little girl who lived"
    path = "stories260K-q8_0.gguf"
    monkeypatch.setenv(emulator.FEATURES_VARIABLE, features)
    texts, found = {}, {}
    for device in ("cpu", "emulator:0"):
        for precise in (True, False):
            with Model(shared / "models" / path, devices=[device], kv_type="f16",
                       precise=precise) as model:
                found[device, precise] = model.logits(model.tokenize(prompt))
                if device == "emulator:0":
                    assert by_units(model) - {"matmul_mma", "split_rows"} == (
                        {"wgmma"} if "wgmma" in features and not precise else set())
                    assert "matmul_mma" in by_units(model)
                if precise:
                    texts[device] = model.generate(prompt, temperature=0.0, max_tokens=24).text
    assert texts["cpu"] == texts["emulator:0"] and texts["cpu"]
    exact = found["cpu", True]
    assert error(found["emulator:0", True], exact) < F16_CACHE
    assert error(found["emulator:0", False], exact) < 3 * error(found["cpu", False], exact)


@pytest.mark.parametrize("name", recipes.names()[::1 if ALL else 10])
def test_recipes(shared: Path, fast: None, name: str, tmp_path: Path) -> None:
    recipe = recipes.make(name, tmp_path)
    for batch_size, kv_type, bound in ((512, "f32", EXACT_CACHE), (7, "f16", F16_CACHE)):
        with Model(recipe.path, devices=DEVICE, kv_type=kv_type, batch_size=batch_size) as model:
            assert error(answer(model, recipe.tokens), recipe.expected) < bound


@pytest.mark.parametrize("features", ["", "subgroups,int_dot", "subgroups,int_dot,mma",
                                      "subgroups,int_dot,mma,wgmma"])
def test_a_model_makes_no_fault(make_model: Callable[..., Path], features: str,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    """With all checks, threads in three orders: a prompt and steps that continue. With matrix units
    these multiply rows and attend; four warps do so together for many rows."""
    monkeypatch.setenv(emulator.MODE_VARIABLE, "checked")
    monkeypatch.setenv(emulator.FEATURES_VARIABLE, features)
    path = make_model("llama", n_embd=64, n_layers=2, quant="Q8_0")
    prompt = list(range(3, 73 if "wgmma" in features else 20))
    found, ran = {}, set[str]()
    with emulator.plugged_in():
        for device in ("reference", "emulator:0"):
            with Model(path, devices=[device], kv_type="f16", precise=not features) as model:
                found[device] = model.logits(prompt)
                model.generate(prompt, temperature=0.0, max_tokens=4)
                if device == "emulator:0":
                    ran = by_units(model)
    assert ({"gated_rows", "attention_mma"} <= ran) == ("mma" in features)
    assert ("wgmma" in ran) == ("wgmma" in features)
    if not features:
        assert error(found["emulator:0"], found["reference"]) < F16_CACHE


@pytest.mark.parametrize("features", ["subgroups,int_dot,mma", "subgroups,int_dot,mma,wgmma"])
def test_dispatches_of_a_decode_step(make_model: Callable[..., Path], fast: None, features: str,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight for each layer: norms and gated products round rows for the products after them, so
    only the results of attention have a dispatch for that."""
    monkeypatch.setenv(emulator.FEATURES_VARIABLE, features)
    n_layers, step = 4, Size(1, 1, 1, 1, True, frozenset())
    path = make_model("llama", n_embd=64, n_layers=n_layers, quant="Q8_0")
    with Model(path, devices=DEVICE, context_size=64) as model:
        ((_, program),) = model.engine.plan._programs
        assert isinstance(program, emulator.EmulatorProgram)
        kernels = [d.kernel for d in program.lowered.dispatches if d.grid(step) is not None]
    assert kernels.count("norm_quantize") == 2 * n_layers + 1
    assert kernels.count("gated_rows") == kernels.count("quantize") == n_layers
    assert len(kernels) <= 8 * n_layers + 9
