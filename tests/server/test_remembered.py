"""What the server keeps for clients stays within its bounds, the newest first."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from unladen.server.dialects.ollama.generate import Contexts
from unladen.server.dialects.openai.responses import store
from unladen.server.dialects.openai.responses.store import Kept, Store
from unladen.server.faults import Fault
from unladen.server.remembered import Remembered, size_of


def test_random_uses_are_those_of_a_list(rng: np.random.Generator) -> None:
    kept: Remembered[int, str] = Remembered(max_items=20, max_bytes=5000)
    known: list[tuple[int, str]] = []
    for key in range(2000):
        text = "x" * int(rng.integers(0, 800))
        kept.add(key, text, [text])
        known.append((key, text))
        while len(known) > 20 or sum(size_of([t]) for _, t in known) > 5000:
            known.pop(0)
        if known and rng.random() < 0.2:
            gone, _ = known.pop(int(rng.integers(len(known))))
            kept.remove(gone)
        assert len(kept) == len(known)
        assert kept.n_bytes == sum(size_of([t]) for _, t in known) <= 5000
        assert all(kept.get(k) == t for k, t in known)


def test_a_value_that_is_too_large_puts_no_other_out() -> None:
    kept: Remembered[int, str] = Remembered(max_items=20, max_bytes=5000)
    kept.add(1, "a", "a")
    kept.add(2, "b", "b" * 10_000)
    assert kept.get(1) == "a" and kept.get(2) is None and len(kept) == 1


@pytest.mark.parametrize("value", [
    "x" * 100_000, [0.5] * 10_000, {"a": [{"b": "c" * 1000}] * 3}, [[]] * 1000, "é" * 1000, None])
def test_a_size_counts_all_that_is_inside(value: Any) -> None:
    def counted(each: Any) -> int:
        inside = ([*each, *each.values()] if isinstance(each, dict) else
                  each if isinstance(each, list) else [])
        return sys.getsizeof(each) + sum(map(counted, inside))
    assert size_of(value) == counted(value)


def test_large_responses_are_forgotten_early() -> None:
    kept, size = Store(), store.MAX_BYTES // 4
    for i in range(6):
        text = chr(97 + i) * size
        kept.keep(Kept("", {"id": str(i)}, [{"role": "user", "content": text}], []))
    assert [kept.of(str(i), "").response["id"] for i in (3, 4, 5)] == ["3", "4", "5"]
    for i in (0, 1, 2):
        with pytest.raises(Fault, match="there is no response"):
            kept.of(str(i), "")


def test_large_contexts_are_forgotten_early() -> None:
    contexts = Contexts()
    made = [contexts.keep([{"role": "user", "content": chr(97 + i) * 2**26}]) for i in range(6)]
    assert contexts.said(made[-1])[0]["content"][0] == "f"
    with pytest.raises(Fault, match="isn't known any more"):
        contexts.said(made[0])
