"""What the server keeps for clients stays within its bounds, the newest first."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

from unladen.server.dialects.ollama.generate import Contexts
from unladen.server.dialects.openai.responses import store
from unladen.server.dialects.openai.responses.store import Kept, Store
from unladen.server.faults import Fault
from unladen.server.remembered import Remembered


def test_random_uses_are_those_of_a_list(rng: np.random.Generator) -> None:
    kept: Remembered[int] = Remembered(max_items=20, max_bytes=5000)
    known: list[tuple[int, list[str]]] = []

    def n_bytes() -> int:
        return sum(len(json.dumps(value)) for _, value in known)

    for key in range(2000):
        value = ["x" * int(rng.integers(0, 800))]
        kept.add(key, value)
        known.append((key, value))
        while len(known) > 20 or n_bytes() > 5000:
            known.pop(0)
        if known and rng.random() < 0.2:
            gone, _ = known.pop(int(rng.integers(len(known))))
            kept.remove(gone)
            assert gone not in kept
        assert len(kept) == len(known)
        assert kept.n_bytes == n_bytes() <= 5000
        assert all(kept.get(k) == value for k, value in known)


def test_a_value_that_is_too_large_puts_no_other_out() -> None:
    kept: Remembered[int] = Remembered(max_items=20, max_bytes=5000)
    kept.add(1, "a")
    kept.add(2, "b" * 10_000)
    assert kept.get(1) == "a"
    assert 2 not in kept and len(kept) == 1
    with pytest.raises(KeyError):
        kept.get(2)


@pytest.mark.parametrize("value", [
    "\ud800", "é\U0001f600\0", 10**30, [0.1, 1e-300, None, True], {"a": [{"b": {}}] * 3}])
def test_a_value_comes_back_as_a_copy(value: Any) -> None:
    kept: Remembered[str] = Remembered(max_items=1, max_bytes=1000)
    kept.add("key", [value])
    found = kept.get("key")
    assert found == [value]
    found.clear()
    assert kept.get("key") == [value]


def test_what_is_kept_takes_no_more_memory_than_its_text_and_a_little() -> None:
    kept: Remembered[int] = Remembered(max_items=1000, max_bytes=2**28)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for key in range(1000):
            kept.add(key, [{"role": "user", "content": [{"text": str(key)}]}] * 20)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept.n_bytes < taken < 1.2 * kept.n_bytes + 200 * 1000


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
