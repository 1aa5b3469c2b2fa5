"""For every recipe: rolling back, and saving and restoring, don't change later results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.parity import recipes
from tests.parity.recipes import Recipe, error

from unladen import Model
from unladen.cache import CachedSequence
from unladen.engine import Request
from unladen.engine.batcher import Work, fill
from unladen.engine.running import Running
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.tokenizer import StreamDecoder

CPU_F32, CPU_F16 = 1e-8, 1e-5
KEPT = 64
"""A number of tokens that fills whole blocks."""


def _decoders() -> list[str]:
    return [n for n in recipes.names() if recipes.continues(n)]


@pytest.fixture(scope="module", params=_decoders())
def recipe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return recipes.make(str(request.param), tmp_path_factory.mktemp("archs"))


def _run(model: Model, cached: CachedSequence, tokens: list[int], *, commit: bool = True
         ) -> npt.NDArray[np.float32]:
    """The logits of the step that extends the sequence to the end of ``tokens``."""
    plan, n = model.engine.plan, len(tokens) - cached.length
    request = Request(tokens, sampler=None, decoder=StreamDecoder(model.tokenizer))
    assert cached.reserve(len(tokens))
    fill(plan.batch, [Work(Running(request, cached), n, n)])
    plan.run()
    logits = plan.output("logits").copy()
    if commit:
        cached.commit(tokens, len(tokens))
    return logits


def test_rolled_back(shared: Path, recipe: Recipe) -> None:
    tokens, wrong = recipe.tokens, recipe.tokens[:5]
    with Model(recipe.path, kv_type="f32") as model:
        cached = model.engine.sequence()
        mine = [_run(model, cached, tokens[:KEPT])]
        _run(model, cached, [*tokens[:KEPT], *wrong])
        assert cached.truncate(KEPT) == KEPT
        mine.append(_run(model, cached, tokens[:KEPT + 6]))
        _run(model, cached, [*tokens[:KEPT + 6], *wrong], commit=False)  # like a cancelled step
        _run(model, cached, [*tokens[:KEPT + 6], *wrong[:4]])
        left = cached.truncate(KEPT + 6)
        assert left == (KEPT if cached.is_recurrent else KEPT + 6)
        rest = _run(model, cached, tokens)[KEPT + 6 - left:]
        cached.release()
    assert error(np.concatenate([*mine, rest]), recipe.expected) < CPU_F32


def test_saved_and_restored(shared: Path, recipe: Recipe) -> None:
    with Model(recipe.path, kv_type="f32", context_size=128) as model:
        data = model.save_state(recipe.tokens[:KEPT + 9])
    for kv_type, bound in (("f32", CPU_F32), ("f16", CPU_F16)):
        with Model(recipe.path, kv_type=kv_type, devices=["cpu:0", "cpu:1"], tensor_split=[1, 1],
                   context_size=200) as model:
            assert model.load_state(data) == recipe.tokens[:KEPT + 9]
            for n in (KEPT + 9, KEPT):  # the second text differs after the checkpoint
                cached = model.engine.sequence()
                assert cached.attach(recipe.tokens[:n + 1]) == n
                mine = _run(model, cached, recipe.tokens)
                cached.release()
                assert error(mine, recipe.expected[n:]) < bound


def test_a_prompt_finds_what_was_restored(shared: Path, recipe: Recipe) -> None:
    prompt = recipe.tokens[:KEPT + 9]
    with Model(recipe.path, kv_type="f32") as model:
        whole = model.generate(prompt, max_tokens=12, temperature=0.0)
        data = model.save_state(prompt)
    with Model(recipe.path, kv_type="f32") as model:
        model.load_state(data)
        again = model.generate(prompt, max_tokens=12, temperature=0.0)
    # The last token is computed again; a recurrent state can't go back by one.
    is_recurrent = again.usage.n_cached == KEPT
    assert is_recurrent or again.usage.n_cached == len(prompt) - 1
    assert again.tokens == whole.tokens


def test_damaged_and_foreign_states(shared: Path, tmp_path: Path) -> None:
    hybrid, plain = (recipes.make(n, tmp_path) for n in ("qwen35-dense", "llama-dense"))
    with Model(hybrid.path, context_size=128) as model:
        data = model.save_state(hybrid.tokens)
        rng = np.random.default_rng()
        for _ in range(30):
            broken = bytearray(data)
            at = int(rng.integers(0, len(data)))
            broken[at] ^= int(rng.integers(1, 256))
            with pytest.raises((InvalidArgument, ContextOverflow)):
                model.load_state(bytes(broken))
            with pytest.raises(InvalidArgument):
                model.load_state(data[:at])
        assert model.load_state(data) == hybrid.tokens
    with Model(hybrid.path, context_size=64) as model, pytest.raises(ContextOverflow):
        model.load_state(data)
    with Model(plain.path) as model, pytest.raises(InvalidArgument, match="another model"):
        model.load_state(data)
