"""Every recipe of an implemented architecture, against another engine's logits."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.conftest import SHARED

from unladen import Model
from unladen.engine import Request
from unladen.models import registry
from unladen.tokenizer import StreamDecoder

EXACT, CPU_F32, CPU_F16 = 1e-9, 1e-8, 1e-5
COMPUTED_GELU = Path(__file__).with_name("gelu_answers.npz")
"""The answers beside the recipes look GELU up in a table of float16 arguments and results, which
alone moves them by about 1e-7. These are the same engine's without the table: see
``tools/gen_gelu_answers.py``."""
TABLE = math.ldexp(1, -20)
"""The most that a table of 11 bits may move logits, squared and normalized."""


def _recipes() -> list[str]:
    return [p.stem for p in sorted((SHARED / "archs").glob("*.json"))
            if json.loads(p.read_text())["arch"] in registry()]


def _error(mine: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    a, b = mine.astype(np.float64), expected.astype(np.float64)
    return float(((a - b) ** 2).sum() / (b ** 2).sum())


def _answer(name: str) -> tuple[list[int], npt.NDArray[np.float32]]:
    with np.load(SHARED / f"archs/{name}.npz") as data, np.load(COMPUTED_GELU) as computed:
        tokens, expected = data["tokens"].tolist(), data["logits"]
        if name in computed:
            assert 0 < _error(computed[name], expected) < TABLE
            expected = computed[name]
    return tokens, expected


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
    return name, path, *_answer(name)


Recipe = tuple[str, Path, list[int], npt.NDArray[np.float32]]


def test_recipes_are_found(shared: Path) -> None:
    assert set(_recipes()) >= {"llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense",
                               "qwen3moe-moe", "gpt2-dense"}


def test_reference(shared: Path, recipe: Recipe) -> None:
    _, path, tokens, expected = recipe
    with Model(path, devices=["reference"], kv_type="f32") as model:
        assert _error(model.logits(tokens), expected) < EXACT


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
