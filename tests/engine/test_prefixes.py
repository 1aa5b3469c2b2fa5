"""A chat goes on from its cached prefix, whatever small requests came between two turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity import recipes

from unladen import Model
from unladen.engine.engine import Engine

GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
KINDS = {"llama-dense": "whole", "granite_swa-dense": "window", "lfm2-dense": "recurrent",
         "falcon-h1-dense": "recurrent"}
BLOCK = 32
"""Tokens in a block of the cache."""


@pytest.fixture(params=KINDS)
def model_file(shared: Path, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A model, and how its layers remember."""
    return recipes.make(request.param, tmp_path).path, KINDS[request.param]


def loaded(path: Path, **options: Any) -> Model:
    """A model whose steps are small, so that long prompts take many of them."""
    return Model(path, **{"kv_type": "f32", "batch_size": 64, "context_size": 2048, "max_seqs": 4,
                          "speculate": False, **options})


def drawn(model: Model, rng: np.random.Generator, n: int) -> list[int]:
    return rng.integers(3, model.tokenizer.n_vocab, n).tolist()


def test_titles_and_follow_ups_leave_a_chat_its_prefix(
        model_file: tuple[Path, str], rng: np.random.Generator) -> None:
    path, _ = model_file
    with loaded(path) as model:
        chat, n_before = drawn(model, rng, 500), 0
        for turn in range(3):
            result = model.generate(chat, max_tokens=90, **GREEDY)
            assert result.usage.n_cached >= n_before - 1 - BLOCK, turn
            chat += result.tokens
            n_before = len(chat)
            for n in rng.integers(100, 500, 3):
                model.generate([*drawn(model, rng, 40), *chat[:int(n)]], max_tokens=20, **GREEDY)
            chat += drawn(model, rng, 30)
        engine = model._engine
        assert isinstance(engine, Engine) and engine.pool.n_available == engine.pool.n_blocks
        last = model.generate(chat, max_tokens=12, **GREEDY)
    with loaded(path) as model:
        assert last.tokens == model.generate(chat, max_tokens=12, **GREEDY).tokens


def test_a_turn_whose_answer_is_written_anew(
        model_file: tuple[Path, str], rng: np.random.Generator) -> None:
    """A template may leave out the reasoning of earlier turns. Then the next turn goes on from the
    end of the prompt, and not from what was written, however long that was."""
    path, _ = model_file
    with loaded(path) as model:
        chat = drawn(model, rng, 300)
        for _ in range(2):
            result = model.generate(chat, max_tokens=300, **GREEDY)
            n_before = len(chat)
            for _ in range(3):
                model.generate(drawn(model, rng, 200), max_tokens=20, **GREEDY)
            chat += [*result.tokens[-20:], *drawn(model, rng, 30)]
            again = model.generate(chat, max_tokens=1, **GREEDY)
            assert again.usage.n_cached >= n_before - BLOCK - 1


def test_a_beginning_that_many_prompts_share(
        model_file: tuple[Path, str], rng: np.random.Generator) -> None:
    """Where it ended once, or was found once, it is found again after many other prompts."""
    path, kind = model_file
    with loaded(path) as model:
        shared = drawn(model, rng, 320)
        model.generate([*shared, *drawn(model, rng, 150)], max_tokens=5, **GREEDY)
        for n in range(12):
            result = model.generate([*shared, *drawn(model, rng, 150)], max_tokens=5, **GREEDY)
            assert result.usage.n_cached >= 256 or (kind == "recurrent" and not n), n
            model.generate(drawn(model, rng, 300), max_tokens=5, **GREEDY)


def test_chats_that_begin_alike_keep_their_own_ends(
        model_file: tuple[Path, str], rng: np.random.Generator) -> None:
    """The beginning doesn't end with a checkpoint, so that a recurrent model computes the rest of
    it once more for each chat."""
    path, _ = model_file
    with loaded(path) as model:
        rules = drawn(model, rng, 300)
        chats = [[*rules, *drawn(model, rng, int(n))] for n in rng.integers(60, 200, 3)]
        for turn in range(3):
            n_before = [0 if turn == 0 else len(chat) for chat in chats]
            asked = [[*chat, *drawn(model, rng, 40)] for chat in chats]
            results = (model.generate(asked, max_tokens=20, **GREEDY) if turn else
                       [model.generate(chat, max_tokens=20, **GREEDY) for chat in asked])
            for result, n in zip(results, n_before, strict=True):
                assert result.usage.n_cached >= n - BLOCK, (turn, n)
            chats = [[*chat, *result.tokens] for chat, result in zip(asked, results, strict=True)]
    with loaded(path) as model:
        for chat, result in zip(asked, results, strict=True):
            assert model.generate(chat, max_tokens=20, **GREEDY).tokens == result.tokens


def test_what_was_unused_longest_goes_first_and_tails_before_heads(
        shared: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    """The cache has room for 32 blocks: three chats of 9 blocks, and 5 more."""
    path = recipes.make("llama-dense", tmp_path).path
    with loaded(path, cache_tokens=1024, context_size=1024) as model:
        chats = [drawn(model, rng, 9 * BLOCK) for _ in range(3)]

        def n_cached(i: int, n: int = 9) -> int:
            return model.generate([*chats[i][:n * BLOCK], 5], max_tokens=1, **GREEDY).usage.n_cached
        for i in range(3):
            assert n_cached(i) == 0
        n_cached(0)  # used again, so that 1 is the oldest from here on
        model.generate(drawn(model, rng, 10 * BLOCK), max_tokens=1, **GREEDY)
        assert n_cached(0) == n_cached(2) == 9 * BLOCK
        assert n_cached(1, 1) == BLOCK, "its head is still there"
        assert n_cached(1) < 9 * BLOCK, "its tail went"
