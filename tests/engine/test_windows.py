"""Models with sliding windows: little of the cache is held, and what is computed stays the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.conftest import check_idle, scripted
from engine.test_speculate import eager
from unladen import Model
from unladen.engine.engine import Engine
from unladen.errors import InvalidArgument

WINDOW, CONTEXT = 40, 512
GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture
def path(make_model: Callable[..., Path]) -> Path:
    """Two of its three layers see a window."""
    return make_model("granite_swa", n_layers=3, keys={
        "granite_swa.context_length": CONTEXT,
        "granite_swa.attention.sliding_window_pattern": [True, False, True],
        "granite_swa.attention.sliding_window": WINDOW, "granite_swa.logit_scale": 2.0})


def drawn(model: Model, rng: np.random.Generator, n: int) -> list[int]:
    return [int(t) for t in rng.integers(3, model.tokenizer.n_vocab, n)]


def engine_of(model: Model) -> Engine:
    engine = model._engine
    assert isinstance(engine, Engine)
    return engine


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_long_texts(path: Path, rng: np.random.Generator, device: str) -> None:
    """Written in small steps, a text is what one step computes, which keeps all of it."""
    options: dict[str, Any] = {"kv_type": "f32", "devices": [device]}
    with Model(path, batch_size=16, max_seqs=2, **options) as model:
        tokens = drawn(model, rng, 330)
        small = model.logits(tokens)
        pool = engine_of(model).pool
        assert pool.windows[0].n_blocks < pool.n_blocks
        assert pool.windows[0].n_available == pool.windows[0].n_blocks
    with Model(path, batch_size=CONTEXT, **options) as model:
        whole = model.logits(tokens)
    np.testing.assert_allclose(small, whole, rtol=2e-4, atol=2e-4 * np.abs(whole).max())


def test_many_sequences_in_a_small_cache(path: Path, rng: np.random.Generator) -> None:
    """They share beginnings, give blocks back, are sent back to the queue, and say the same."""
    with Model(path, kv_type="f32") as model:
        begin = drawn(model, rng, 90)
        texts = [begin[:n] + drawn(model, rng, 30) for n in (0, 40, 64, 90, 90)]
        wanted = [model.generate(t, max_tokens=60, **GREEDY).tokens for t in texts]
    with Model(path, kv_type="f32", batch_size=32, max_seqs=3, cache_tokens=CONTEXT) as model:
        for _ in range(2):
            results = model.generate(texts, max_tokens=60, **GREEDY)
            assert [r.tokens for r in results] == wanted
        pool = engine_of(model).pool
        assert all(p.n_available == p.n_blocks for p in (pool, *pool.windows)), "none is lost"


def test_a_prefix_is_found_beyond_the_window(path: Path, rng: np.random.Generator) -> None:
    with Model(path, kv_type="f32") as model:
        tokens = drawn(model, rng, 250)
        model.generate(tokens, max_tokens=1, **GREEDY)
        again = model.generate([*tokens, 7], max_tokens=20, **GREEDY)
        assert again.usage.n_cached == 224
    with Model(path, kv_type="f32") as model:
        assert model.generate([*tokens, 7], max_tokens=20, **GREEDY).tokens == again.tokens


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 100, 300])
def test_saved_states(path: Path, rng: np.random.Generator, n: int) -> None:
    with Model(path, kv_type="f32") as model:
        tokens = drawn(model, rng, n)
        longer = [*tokens, 9, 8]
        data = model.save_state(tokens)
        wanted = [model.generate(t, max_tokens=50, **GREEDY).tokens for t in (tokens, longer)]
    for options in ({}, {"context_size": 384, "batch_size": 24}, {"devices": ["reference"]}):
        with Model(path, kv_type="f32", **options) as model:
            assert model.load_state(data) == tokens
            for text, expected, n_cached in ((longer, wanted[1], n),
                                             (tokens, wanted[0], n - (1 if n % 32 else 32))):
                result = model.generate(text, max_tokens=50, **GREEDY)
                assert result.usage.n_cached >= n_cached and result.tokens == expected
            assert model.save_state(tokens)[:16] == data[:16]


def test_less_memory(path: Path) -> None:
    """What is counted is what is allocated, and layers with windows need a part of it."""
    with Model(path, kv_type="f32", max_seqs=2, batch_size=32) as model:
        plan = engine_of(model).plan
        sizes = {layer: kv.k.nbytes + kv.v.nbytes for layer, kv in plan.kv.items()}
        counted = sum(m.kv_bytes for m in plan.blueprint.memory.devices)
        assert sum(sizes.values()) == counted == sum(plan.taken_bytes().values())
        assert sizes[0] == sizes[2] < sizes[1]
        assert plan.kv[0].layout.n_blocks == 2 * (2 + 4) + 1


def test_a_session(path: Path, rng: np.random.Generator) -> None:
    """It goes on, its fork goes back, and both say what a new prompt would."""
    with Model(path, kv_type="f32") as model, Model(path, kv_type="f32") as other:
        tokens = drawn(model, rng, 120)
        with model.session() as session:
            for n in (50, 60, 10):
                prompt, tokens = tokens[:n], tokens[n:]
                before = list(session.tokens)
                said = session.generate(prompt, max_tokens=40, **GREEDY).tokens
                assert said == other.generate([*before, *prompt], max_tokens=40, **GREEDY).tokens


def scripted_text(rng: np.random.Generator, n: int) -> list[int]:
    """A circle with wrong turns: guesses come true for some tokens, then not."""
    circle = [9, 20, 31, 8, 40, 11, 12]
    wrong = set(rng.integers(0, n, n // 12).tolist())
    return [60 + i % 200 if i in wrong else circle[i % 7] for i in range(n)]


def test_drafts_that_go_back_across_borders(path: Path, rng: np.random.Generator) -> None:
    """Wrong guesses are taken back wherever the window and its blocks begin; every logit that comes
    afterwards is that of a model that guesses nothing."""
    script = scripted_text(rng, 230)
    prompt = [9, 20, 31, 8, 40, 11, 12] * 4
    found = []
    for speculate in (True, False):
        with Model(path, kv_type="f32", deterministic=True, speculate=speculate) as model:
            if speculate:
                eager(model)
            said = model.generate(prompt, max_tokens=len(script), sampler=scripted(script))
            assert said.tokens == script
            if speculate:
                assert 40 < said.timings.n_accepted < said.timings.n_drafted
            check_idle(model)
            more = model.generate([*prompt, *script, 5], max_tokens=30, logprobs=3, **GREEDY)
            assert more.usage.n_cached > 200
            found.append((more.tokens, more.logprobs))
            pool = engine_of(model).pool
            assert all(p.n_available == p.n_blocks for p in (pool, *pool.windows))
    assert found[0] == found[1], "bit for bit"


def test_forks_and_a_wider_context(path: Path, rng: np.random.Generator) -> None:
    """Sessions and their forks go on after the context grows, and say what a new prompt would."""
    with (Model(path, kv_type="f32", context_size=256, max_seqs=3, batch_size=48) as model,
          Model(path, kv_type="f32") as other, model.session() as session):
        past = drawn(model, rng, 130)
        past += session.generate(past, max_tokens=20, **GREEDY).tokens
        with session.fork() as fork, fork.fork() as third:
            turns = [(session, drawn(model, rng, 9)), (fork, drawn(model, rng, 70)),
                     (third, drawn(model, rng, 33))]
            said = [s.generate(new, max_tokens=15, **GREEDY).tokens for s, new in turns[:2]]
            pool, caches = engine_of(model).pool, engine_of(model).plan.kv
            model.place(context_size=CONTEXT)
            assert engine_of(model).pool is pool, "the cache went along"
            after = engine_of(model).plan.kv
            assert (after[0].k is caches[0].k and after[2].v is caches[2].v
                    and after[0].layout.first_column == CONTEXT // 32), "windows stay in place"
            assert engine_of(model)._admission.limits.n_blocks_per_seq == CONTEXT // 32
            third_said = third.generate(turns[2][1], max_tokens=15, **GREEDY)
            assert third_said.usage.n_cached == len(past) - 1
            said.append(third_said.tokens)
            for (each, new), answer in zip(turns, said, strict=True):
                assert answer == other.generate([*past, *new], max_tokens=15, **GREEDY).tokens
                before = each.tokens
                longer = each.generate(drawn(model, rng, 150), max_tokens=15, **GREEDY)
                assert longer.usage.n_cached == len(before) - 1
                assert longer.tokens == other.generate(each.tokens[:-15], max_tokens=15,
                                                       **GREEDY).tokens
        session.close()
        check_idle(model)
        pool = engine_of(model).pool
        assert all(p.n_available == p.n_blocks for p in (pool, *pool.windows)), "none is lost"


def test_states_with_a_checkpoint(recurrent: Path, rng: np.random.Generator) -> None:
    """Recurrent state and windows go on from the end of the state, and from its checkpoint."""
    with Model(recurrent, kv_type="f32") as model:
        assert engine_of(model).pool.windows and engine_of(model).pool.slots.n_slots
        tokens = drawn(model, rng, 110)
        texts = [[*tokens, 5], [*tokens[:100], 5]]
        data = model.save_state(tokens)
    wanted = []
    for text in texts:
        with Model(recurrent, kv_type="f32") as model:
            wanted.append(model.generate(text, max_tokens=20, **GREEDY).tokens)
    for options in ({}, {"context_size": 160, "batch_size": 24}):
        with Model(recurrent, kv_type="f32", **options) as model:
            assert model.load_state(data) == tokens
            for text, expected, n_cached in zip(texts, wanted, (110, 96), strict=True):
                result = model.generate(text, max_tokens=20, **GREEDY)
                assert (result.usage.n_cached, result.tokens) == (n_cached, expected)


def test_states_of_other_windows(path: Path, make_model: Callable[..., Path],
                                 rng: np.random.Generator) -> None:
    keys = {"granite_swa.context_length": CONTEXT, "granite_swa.logit_scale": 2.0}
    other = make_model("granite_swa", n_layers=3, keys={
        **keys, "granite_swa.attention.sliding_window_pattern": [True, False, True],
        "granite_swa.attention.sliding_window": WINDOW + 8})
    with Model(path) as model:
        tokens = drawn(model, rng, 70)
        data = model.save_state(tokens)
    with Model(other) as model:
        with pytest.raises(InvalidArgument, match="layers see other windows"):
            model.load_state(data)
        assert model.generate(tokens, max_tokens=2, **GREEDY).usage.n_cached == 0


@pytest.fixture
def recurrent(tmp_path: Path, shared: Path) -> Path:
    """Short convolutions, which are recurrent, beside attention that sees a window."""
    from tests.parity import recipes
    return recipes.make("lfm2-dense", tmp_path).path
