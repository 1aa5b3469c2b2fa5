"""Conversations go from worker to worker of a model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest

from unladen import Model
from unladen.server.worker import keeping
from unladen.server.worker.keeping import Recent, restore, save

N_CHATS = 3


@pytest.fixture
def kept() -> Iterator[int]:
    """The file descriptor of an empty file."""
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def worker() -> Model:
    """The model of the next worker."""
    return Model("tiny", devices=["cpu"], n_threads=1)


@pytest.fixture
def chats(kept: int, rng: np.random.Generator) -> list[list[int]]:
    """Conversations that the first worker computed and saved, the oldest first."""
    recent = Recent()
    with worker() as model:
        found = [rng.integers(300, model.tokenizer.n_vocab, int(n)).tolist()
                 for n in rng.integers(70, 200, N_CHATS)]
        for chat in found:
            model.generate([*chat, 5], max_tokens=1)
            recent.add(chat)
        assert save(model, recent, kept) == N_CHATS
    return found


def test_what_nobody_asked_for_is_kept_again(kept: int, chats: list[list[int]]) -> None:
    for _ in range(2):  # workers that are loaded and unloaded, and asked for nothing
        recent = Recent()
        with worker() as model:
            for tokens in restore(model, kept):
                recent.add(tokens)
            assert save(model, recent, kept) == N_CHATS
    with worker() as model:
        assert restore(model, kept) == chats
        for chat in chats:
            assert model.generate([*chat, 5], max_tokens=1).usage.n_cached == len(chat)


def test_the_newest_comes_first_where_time_is_short(
        kept: int, chats: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LOAD_SECONDS", 0.0)
    with worker() as model:
        assert restore(model, kept) == chats[-1:]


def test_the_newest_stays_where_the_cache_is_small(kept: int, chats: list[list[int]]) -> None:
    with Model("tiny", devices=["cpu"], n_threads=1, context_size=256, cache_tokens=256) as model:
        assert restore(model, kept) == chats
        assert model.generate([*chats[-1], 5], max_tokens=1).usage.n_cached == len(chats[-1])


def test_a_file_that_isnt_complete_counts_as_empty(kept: int, chats: list[list[int]]) -> None:
    os.pwrite(kept, b"\0" * 8, 0)
    with worker() as model:
        assert restore(model, kept) == []
