"""Two models on one device: each computes what it computes alone, with threads of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import Model
from unladen.backends._system import this_system
from unladen.backends.base import BackendOptions
from unladen.backends.ggml.backend import GgmlBackend
from unladen.backends.ggml.driver import FEW_TOKENS
from unladen.errors import InvalidArgument

PROMPTS = [[5 + i] * n for i, n in enumerate((3, 17, 60, 9))]


@pytest.fixture
def models(ggml: GgmlBackend, tmp_path: Path) -> Iterator[list[Model]]:
    """Two models of different sizes; products with Q8_0 use the device's working memory."""
    with ExitStack() as stack:
        yield [stack.enter_context(Model(
            write_tiny(tmp_path / f"{n}.gguf", np.random.default_rng(n), n_embd=n, quant="Q8_0"),
            devices=["ggml:0"], context_size=128, cache_tokens=256)) for n in (64, 256)]


def test_two_models_at_once(models: list[Model]) -> None:
    expected = [[model.logits(prompt) for prompt in PROMPTS] for model in models]
    together = Barrier(2)

    def n_wrong(i: int) -> int:
        n = 0
        together.wait()
        for _ in range(10):
            n += sum(not np.array_equal(models[i].logits(prompt), logits)
                     for prompt, logits in zip(PROMPTS, expected[i], strict=True))
        return n
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(n_wrong, range(2))) == [0, 0]


def test_each_model_has_its_threads(ggml: GgmlBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = ggml._driver(ggml.open("ggml:0", BackendOptions()))
    used: set[int] = set()

    def use(handle: int, n: int) -> None:
        assert handle == driver.handle
        used.add(n)
    monkeypatch.setattr(driver, "_set_threads", use)

    def threads(model: Model, n_tokens: int) -> set[int]:
        used.clear()
        model.logits([5] * n_tokens)
        return set(used)
    options: dict[str, Any] = {"devices": ["ggml:0"], "context_size": 128}
    with (Model("tiny", n_threads=2, n_threads_batch=3, **options) as first,
          Model("tiny", n_threads=5, **options) as second, Model("tiny", **options) as third):
        assert [threads(first, n) for n in (1, FEW_TOKENS, FEW_TOKENS + 1)] == [{2}, {2}, {3}]
        assert [threads(second, n) for n in (1, FEW_TOKENS + 1)] == [{5}, {5}]
        assert threads(third, 1) == {this_system().n_cores()}


def test_numbers_of_threads_that_ggml_has_no_room_for(ggml: GgmlBackend) -> None:
    for n in (0, 513):
        with pytest.raises(InvalidArgument, match=f"n_threads={n} is out of range"):
            ggml.open("ggml:0", BackendOptions(n_threads=n))
