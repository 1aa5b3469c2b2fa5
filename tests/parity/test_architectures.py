"""Every recipe of an implemented architecture, against another engine's logits."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pytest
from tests.conftest import SHARED

from unladen import Model
from unladen.engine import Request
from unladen.graph.ops import activation
from unladen.models import registry
from unladen.tokenizer import StreamDecoder

Array = npt.NDArray[np.float64]

EXACT, CPU_F32, CPU_F16 = 1e-9, 1e-8, 1e-5
HALF_PRECISION_GELU = frozenset({"gpt2-dense"})
"""The answering engine computes GELU by a table over float16 arguments with float16 results, which
alone moves these logits by 1e-7. We compute GELU itself; the tests round as that engine does."""


def _recipes() -> list[str]:
    return [p.stem for p in sorted((SHARED / "archs").glob("*.json"))
            if json.loads(p.read_text())["arch"] in registry()]


def _error(mine: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    a, b = mine.astype(np.float64), expected.astype(np.float64)
    return float(((a - b) ** 2).sum() / (b ** 2).sum())


@pytest.fixture(scope="module", params=_recipes())
def recipe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
           ) -> tuple[str, Path, list[int], npt.NDArray[np.float32]]:
    name = str(request.param)
    path = tmp_path_factory.mktemp("archs") / f"{name}.gguf"
    spec = importlib.util.spec_from_file_location("fixture", SHARED / "archs/fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    fixture.build(SHARED / f"archs/{name}.json", path)
    with np.load(SHARED / f"archs/{name}.npz") as data:
        tokens, logits = data["tokens"].tolist(), data["logits"]
    if name in HALF_PRECISION_GELU:
        with Model(path, devices=["reference"], kv_type="f32") as model:
            logits = model.logits(tokens)  # itself checked in test_half_precision_gelu
    return name, path, tokens, logits


Recipe = tuple[str, Path, list[int], npt.NDArray[np.float32]]


def test_recipes_are_found(shared: Path) -> None:
    assert set(_recipes()) >= {"llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense",
                               "qwen3moe-moe", "gpt2-dense"}


@pytest.mark.parametrize("recipe", [n for n in _recipes() if n not in HALF_PRECISION_GELU],
                         indirect=True)
def test_reference(shared: Path, recipe: Recipe) -> None:
    """GPT-2 isn't here: its expectation in this file is this very reference."""
    _, path, tokens, expected = recipe
    with Model(path, devices=["reference"], kv_type="f32") as model:
        assert _error(model.logits(tokens), expected) < EXACT


def _half(f: Callable[[Array], Array], x: Array) -> Array:
    rounded = x.astype(np.float32).astype(np.float16).astype(np.float64)
    y = f(rounded).astype(np.float32).astype(np.float16).astype(np.float64)
    return np.where(np.abs(x) < 10, y, np.maximum(x, 0))


@pytest.mark.parametrize("name", sorted(HALF_PRECISION_GELU))
def test_half_precision_gelu(shared: Path, name: str, tmp_path: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    """With that engine's rounding the logits agree, but for the few arguments that its own float32
    sums put on the other side of a float16 boundary: so the median row is held to the exact bound,
    and the whole to ten times that. Without the rounding the whole is within its size, 2^-11 of a
    third of the activations."""
    recipe = SHARED / f"archs/{name}.json"
    spec = importlib.util.spec_from_file_location("fixture", SHARED / "archs/fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    fixture.build(recipe, tmp_path / "model.gguf")
    with np.load(SHARED / f"archs/{name}.npz") as data:
        tokens, expected = data["tokens"].tolist(), data["logits"]
    with Model(tmp_path / "model.gguf", devices=["reference"], kv_type="f32") as model:
        plain = model.logits(tokens)
    gelu = activation.ACTIVATIONS["gelu"]
    monkeypatch.setattr(activation, "ACTIVATIONS", MappingProxyType(
        {**activation.ACTIVATIONS, "gelu": lambda x: _half(gelu, x)}))
    with Model(tmp_path / "model.gguf", devices=["reference"], kv_type="f32") as model:
        rounded = model.logits(tokens)
    rows = [_error(a[None], b[None]) for a, b in zip(rounded, expected, strict=True)]
    assert float(np.median(rows)) < EXACT
    assert _error(rounded, expected) < 10 * EXACT
    assert _error(plain, expected) < math.ldexp(1, -22)


@pytest.mark.parametrize("batch_size", [512, 7, 1])
def test_cpu_whole_in_chunks_and_one_by_one(shared: Path, recipe: Recipe, batch_size: int) -> None:
    _, path, tokens, expected = recipe
    with Model(path, kv_type="f32", batch_size=batch_size) as model:
        assert _error(model.logits(tokens), expected) < CPU_F32
    with Model(path, batch_size=batch_size) as model:
        assert _error(model.logits(tokens), expected) < CPU_F16


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_interleaved_with_another_sequence(shared: Path, recipe: Recipe, device: str) -> None:
    _, path, tokens, expected = recipe
    with Model(path, kv_type="f32", devices=[device], batch_size=48) as model:
        requests = [Request(ids, sampler=None, decoder=StreamDecoder(model.tokenizer))
                    for ids in (tokens[::-1][:61], tokens, tokens[5:40])]
        for request in requests:
            model.engine.submit(request)
        model.engine.finish(requests[1])
        mine = np.concatenate(requests[1].logits)
    assert _error(mine, expected) < (EXACT if device == "reference" else CPU_F32)


@pytest.mark.parametrize("recipe", [n for n in _recipes() if n.endswith("-moe")], indirect=True)
@pytest.mark.parametrize("shares", [[1, 1], [0, 1], [0.5, 0, 0.5]])
def test_experts_divided(shared: Path, recipe: Recipe, shares: list[float]) -> None:
    _, path, tokens, expected = recipe
    devices = [f"cpu:{i}" for i in range(len(shares))]
    for batch_size in (512, 7, 1):
        with Model(path, kv_type="f32", devices=devices, expert_split=shares,
                   batch_size=batch_size) as model:
            assert _error(model.logits(tokens), expected) < CPU_F32
            used = {line.split()[2] for line in model.placement().splitlines() if " moe " in line}
        assert used == {d for d, share in zip(devices, shares, strict=True) if share}


def test_split_over_two_devices_at_every_boundary(shared: Path, recipe: Recipe) -> None:
    _, path, tokens, expected = recipe
    with Model(path, kv_type="f32") as model:
        whole, n_layers = model.logits(tokens), model.architecture.n_layers
    for n in range(n_layers + 1):
        with Model(path, kv_type="f32", devices=["cpu:0", "cpu:1"],
                   tensor_split=[n, n_layers - n]) as model:
            mine = model.logits(tokens)
            devices = {line.split()[2] for line in model.placement().splitlines()}
        assert devices == ({"cpu:0", "cpu:1"} if 0 < n < n_layers else
                           {"cpu:1"} if n == 0 else {"cpu:0"})
        np.testing.assert_array_equal(mine, whole)
        assert _error(mine, expected) < CPU_F32
