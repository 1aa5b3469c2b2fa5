"""Functions that see and change values in the middle of a step, and their faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.conftest import EXACT, Load, check_idle
from engine.test_batching import alone, check_same, greedy, together
from engine.test_speculate import eager
from tiny_model import N_VOCAB
from unladen.engine.tap import TapInfo
from unladen.errors import ReentrantCall, TapError

Floats = npt.NDArray[np.float32]
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12}


def test_functions_see_no_guesses(load: Load) -> None:
    model, seen = load(**EXACT), list[int]()

    def look(values: Floats, info: TapInfo) -> None:
        seen.extend(info.positions.tolist())
    with model.tap({"blk.0.ffn_out": look}):
        eager(model)
        got = model.generate([5, 6, 7, 8] * 12, temperature=0.0, max_tokens=60)
    assert got.timings.n_drafted == 0
    assert seen == list(range(48 + 59))


def test_changes_reach_the_cache_and_leave_it(load: Load, rng: np.random.Generator) -> None:
    """A prefix computed with a change isn't reused without the change, nor the other way round."""
    prompt = rng.integers(3, N_VOCAB, 100).tolist()
    vector = rng.standard_normal(64).astype(np.float32)
    with load(**EXACT) as fresh, fresh.tap(add={"blk.0.ffn_out": vector}):
        steered = fresh.generate(prompt, **GREEDY).tokens
    model = load(**EXACT)
    plain = model.generate(prompt, **GREEDY).tokens
    assert plain != steered
    for _ in range(2):
        with model.tap(add={"blk.0.ffn_out": vector}):
            assert model.generate(prompt, **GREEDY).tokens == steered
        assert model.generate(prompt, **GREEDY).tokens == plain
    check_idle(model)


def test_a_change_under_a_request(load: Load, rng: np.random.Generator) -> None:
    """A request under way goes on as if the model had been changed from the beginning of its
    text."""
    prompt = rng.integers(3, N_VOCAB, 40).tolist()
    vector = 2 * rng.standard_normal(64).astype(np.float32)
    model = load(**EXACT)
    stream = model.stream(prompt, temperature=0.0, max_tokens=40)
    for _ in range(3):
        next(stream)
    n = len(stream.result.tokens)
    with model.tap(add={"blk.*.ffn_out": vector}):
        list(stream)
    so_far = stream.result.tokens
    with load(**EXACT) as other, other.tap(add={"blk.*.ffn_out": vector}):
        # A step that was started ahead may have given one token more.
        for k in (n, n + 1):
            rest = other.generate(prompt + so_far[:k], temperature=0.0, max_tokens=40 - k).tokens
            if so_far[k:] == rest:
                break
        else:
            pytest.fail(f"{so_far[n:]} is not {rest}")


def raises(values: Floats, info: TapInfo) -> Floats:
    raise ZeroDivisionError("a fault of the caller")


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raises, "ZeroDivisionError: a fault of the caller"),
    "writes": (lambda v, i: v.__setitem__(0, 1), "read-only"),
    "shape": (lambda v, i: v[:, :3], r"shape \[6, 3\], not \[6, 64\]"),
    "dtype": (lambda v, i: v.astype(np.float64), "float64, not float32"),
    "no array": (lambda v, i: v.tolist(), "list, not an array"),
    "nan": (lambda v, i: v * np.float32(np.nan), "NaN"),
    "inf": (lambda v, i: np.full_like(v, np.inf), "infinity"),
}


@pytest.mark.parametrize("name", WRONG)
def test_faults_of_functions(load: Load, name: str) -> None:
    function, message = WRONG[name]
    model = load(kv_type="f32")
    text = [5, 6, 7, 8, 9, 10]
    expected = model.logits(text)
    with model.tap({"blk.1.ffn_residual": function}):
        for call in (model.logits, model.generate):
            with pytest.raises(TapError, match=message) as caught:
                call(text)
            assert caught.value.node == "blk.1.ffn_residual"
    check_idle(model)
    np.testing.assert_array_equal(model.logits(text), expected)


def test_a_fault_ends_the_requests_of_its_step_alone(load: Load, prompts: list[list[int]]) -> None:
    model, calls = load(**EXACT), list[int]()

    def fails_once(values: Floats, info: TapInfo) -> None:
        calls.append(len(values))
        if len(calls) == 3:
            raise ValueError("once")
    expected = alone(load(**EXACT), prompts[:2], greedy)
    with model.tap({"blk.1.ffn_out": fails_once}):
        first = model.stream(prompts[0], **greedy(0))
        with pytest.raises(TapError, match="once"):
            list(first)
        check_same([model.generate(prompts[1], **greedy(1))], expected[1:])
    check_same([model.generate(prompts[0], **greedy(0))], expected[:1])


def test_interrupts_go_through(load: Load) -> None:
    def interrupted(values: Floats, info: TapInfo) -> None:
        raise KeyboardInterrupt
    model = load(**EXACT)
    expected = model.logits([5, 6, 7])
    with pytest.raises(KeyboardInterrupt), model.tap({"blk.1.ffn_out": interrupted}):
        model.logits([5, 6, 7])
    np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
    check_idle(model)


def test_what_functions_are_told(load: Load, prompts: list[list[int]]) -> None:
    model, seen = load(**EXACT, batch_size=16), dict[tuple[str, int, int], int]()

    def look(values: Floats, info: TapInfo) -> None:
        assert len(values) == len(info.requests) == len(info.positions) == len(info.tokens)
        for key in zip(info.requests, info.positions, info.tokens, strict=True):
            where = (info.node, int(key[0]), int(key[1]))
            assert where not in seen
            seen[where] = int(key[2])
    with model.tap({"blk.0.ffn_out": look, "output_norm": look}):
        got = together(model, prompts[:3], greedy)
    for i, (prompt, one) in enumerate(zip(prompts[:3], got, strict=True)):
        text = prompt + one.tokens[:-1]
        assert [seen["blk.0.ffn_out", i, k] for k in range(len(text))] == text
        assert {k for node, j, k in seen if (node, j) == ("output_norm", i)} == set(
            range(len(prompt) - 1, len(text)))


@pytest.mark.parametrize("node", ["logits", "blk.2.ffn_out"])
def test_tokens_follow_the_changed_logits(load: Load, node: str) -> None:
    """Greedy steps choose on the device where that is possible: from the changed logits."""
    model = load()

    def wish(values: Floats, info: TapInfo) -> Floats:
        changed = values.copy()
        changed[:, 17] = values.max() + 1
        return changed
    with model.tap({"logits": wish}), model.tap([node]):
        got = model.generate([5, 6, 7], temperature=0.0, max_tokens=6)
    assert got.tokens == [17] * 6


def test_calls_of_the_model_from_a_function(load: Load) -> None:
    """Such calls would wait for the step that they are part of, so they are refused."""
    model = load(**EXACT)
    calls: list[Callable[[], object]] = [
        lambda: model.generate([5, 6], **GREEDY), lambda: model.logits([5, 6]),
        lambda: next(model.stream([5, 6], **GREEDY)), lambda: model.place(context_size=64),
        lambda: model.save_state([5, 6]), model.tap(["blk.0.ffn_out"]).__enter__]
    for call in calls:
        def ask(values: Floats, info: TapInfo, call: Callable[[], object] = call) -> None:
            call()
        with model.tap({"blk.0.ffn_out": ask}), pytest.raises(TapError) as caught:
            model.generate([7] * 5, **GREEDY)
        assert isinstance(caught.value.__cause__, ReentrantCall)
        check_idle(model)
