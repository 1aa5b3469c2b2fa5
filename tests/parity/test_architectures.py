"""Every recipe of an implemented architecture gives another engine's logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.parity import recipes
from tests.parity.recipes import TRAINED, Recipe, answer, error

from unladen import Model
from unladen.engine import Request
from unladen.errors import InvalidArgument
from unladen.models import registry
from unladen.tokenizer import StreamDecoder

EXACT, CPU_F32, CPU_F16 = 1e-9, 1e-8, 1e-5


@pytest.fixture(scope="module", params=recipes.names())
def recipe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return recipes.make(str(request.param), tmp_path_factory.mktemp("archs"))


@pytest.mark.parametrize("arch", sorted(registry()))
def test_architecture_has_a_recipe(shared: Path, arch: str) -> None:
    """One without is compared with nothing, which is worth a line among the skipped tests."""
    known = {name.rpartition("-")[0] for name in recipes.names()}
    if arch not in known | TRAINED:
        pytest.skip(f"no recipe for {arch} in {shared / 'archs'}: its logits are compared with "
                    "nothing")
    assert (arch in known) != (arch in TRAINED)


def test_reference(shared: Path, recipe: Recipe) -> None:
    path, tokens, expected = recipe.path, recipe.tokens, recipe.expected
    with Model(path, devices=["reference"], kv_type="f32") as model:
        assert error(answer(model, tokens), expected) < EXACT


@pytest.mark.parametrize("batch_size", [512, 7, 1])
def test_cpu_whole_in_chunks_and_one_by_one(shared: Path, recipe: Recipe, batch_size: int) -> None:
    path, tokens, expected = recipe.path, recipe.tokens, recipe.expected
    with Model(path, kv_type="f32", batch_size=batch_size) as model:
        assert error(answer(model, tokens), expected) < CPU_F32
    with Model(path, batch_size=batch_size) as model:
        assert error(answer(model, tokens), expected) < CPU_F16


@pytest.mark.parametrize("device", ["cpu", pytest.param("reference", marks=pytest.mark.long)])
def test_interleaved_with_another_sequence(shared: Path, recipe: Recipe, device: str) -> None:
    path, tokens, expected = recipe.path, recipe.tokens, recipe.expected
    with Model(path, kv_type="f32", devices=[device], batch_size=48) as model:
        requests = [Request(ids, sampler=None, decoder=StreamDecoder(model.tokenizer))
                    for ids in (tokens[::-1][:61], tokens, tokens[5:40])]
        for request in requests:
            model.engine.submit(request)
        model.engine.finish(requests[1])
        mine = np.concatenate(requests[1].logits)
    assert error(mine, expected) < (EXACT if device == "reference" else CPU_F32)


@pytest.mark.parametrize("recipe", recipes.with_experts(), indirect=True)
@pytest.mark.parametrize("shares", [[1, 1], [0, 1], [0.5, 0, 0.5]])
def test_experts_divided(shared: Path, recipe: Recipe, shares: list[float]) -> None:
    path, tokens, expected = recipe.path, recipe.tokens, recipe.expected
    devices = [f"cpu:{i}" for i in range(len(shares))]
    for batch_size in (512, 7, 1):
        with Model(path, kv_type="f32", devices=devices, expert_split=shares,
                   batch_size=batch_size) as model:
            assert error(answer(model, tokens), expected) < CPU_F32
            used = {line.split()[2] for line in model.placement().splitlines() if " moe " in line}
        assert used == {d for d, share in zip(devices, shares, strict=True) if share}


def test_split_over_two_devices_at_every_boundary(shared: Path, recipe: Recipe) -> None:
    path, tokens, expected = recipe.path, recipe.tokens, recipe.expected
    with Model(path, kv_type="f32") as model:
        whole, n_layers = answer(model, tokens), model.architecture.n_layers
    for n in range(n_layers + 1):
        with Model(path, kv_type="f32", devices=["cpu:0", "cpu:1"],
                   tensor_split=[n, n_layers - n]) as model:
            mine = answer(model, tokens)
            devices = {line.split()[2] for line in model.placement().splitlines()}
        assert devices == ({"cpu:0", "cpu:1"} if 0 < n < n_layers else
                           {"cpu:1"} if n == 0 else {"cpu:0"})
        np.testing.assert_array_equal(mine, whole)
        assert error(mine, expected) < CPU_F32


@pytest.mark.parametrize("recipe", ["bert-dense", "dream-dense", "llama-dense"], indirect=True)
def test_what_a_model_does_not_give(shared: Path, recipe: Recipe) -> None:
    gives = {"bert-dense": {"embed"}, "dream-dense": {"logits"},
             "llama-dense": {"logits", "generate"}}[recipe.name]
    with Model(recipe.path) as model:
        for call in (model.embed, model.logits, lambda ids: model.generate(ids, max_tokens=1)):
            name = getattr(call, "__name__", "").replace("<lambda>", "generate")
            if name in gives:
                call(recipe.tokens[:3])
            else:
                with pytest.raises(InvalidArgument, match=r"encoder|whole texts"):
                    call(recipe.tokens[:3])
