"""Requests that run together give the same results as each alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from tiny_model import N_VOCAB, write_tiny
from unladen import Model
from unladen.engine import admission
from unladen.sample import BadLogits
from unladen.types import Completion

Prompts = list[list[int]]
Wishes = Callable[[int], dict[str, Any]]


def greedy(i: int) -> dict[str, Any]:
    return {"temperature": 0.0, "max_tokens": 12 + i, "logprobs": 1}


def seeded(i: int) -> dict[str, Any]:
    return {"temperature": 1.5, "seed": 100 + i, "max_tokens": 12, "repeat_penalty": 1.1}


def mixed(i: int) -> dict[str, Any]:
    return greedy(i) if i % 2 else seeded(i)


def together(model: Model, prompts: Prompts, wishes: Wishes) -> list[Completion]:
    """The results of requests that are all submitted before the first step."""
    streams = [model.stream(p, **wishes(i)) for i, p in enumerate(prompts)]
    for stream in streams:
        for _ in stream:
            pass
    return [s.result for s in streams]


def alone(model: Model, prompts: Prompts, wishes: Wishes) -> list[Completion]:
    return [model.generate(p, **wishes(i)) for i, p in enumerate(prompts)]


def n_sent_back(caplog: pytest.LogCaptureFixture) -> int:
    """Count how often a request is sent back."""
    return sum("the cache is full" in r.message for r in caplog.records)


def check_same(got: list[Completion], expected: list[Completion]) -> None:
    for one, other in zip(got, expected, strict=True):
        assert (one.tokens, one.text, one.stop_reason) == (
            other.tokens, other.text, other.stop_reason)
        assert one.usage.n_prompt == other.usage.n_prompt
        for a, b in zip(one.logprobs or (), other.logprobs or (), strict=True):
            assert a.token == b.token and abs(a.logprob - b.logprob) < 1e-4


@pytest.mark.parametrize("wishes", [greedy, seeded, mixed])
@pytest.mark.parametrize("options", [
    {}, {"batch_size": 7}, {"batch_size": 1}, {"max_seqs": 2}, {"max_seqs": 3, "batch_size": 16}])
def test_same_tokens(load: Load, prompts: Prompts, wishes: Wishes, options: dict[str, Any]) -> None:
    expected = alone(load(**EXACT), prompts, wishes)
    model = load(**EXACT, **options)
    check_same(together(model, prompts, wishes), expected)
    check_idle(model)


def test_a_cache_too_small_for_all(load: Load, prompts: Prompts, caplog: pytest.LogCaptureFixture
                                   ) -> None:
    """Requests wait until there is room, and their results are the same."""
    expected = alone(load(**EXACT), prompts, mixed)
    model = load(**EXACT, context_size=128, cache_tokens=128)
    with caplog.at_level("INFO", "unladen"):
        check_same(together(model, prompts, mixed), expected)
    assert not n_sent_back(caplog), "their lengths are known"
    check_idle(model)
    assert load(**EXACT, context_size=128).engine.pool.n_blocks > model.engine.pool.n_blocks


def test_preempted_requests_end_the_same(load: Load, rng: np.random.Generator,
                                         caplog: pytest.LogCaptureFixture,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Some requests fit when they begin, and outgrow the cache together."""
    monkeypatch.setattr(admission, "EXPECTED", 8)
    prompts = [rng.integers(3, N_VOCAB, 30).tolist() for _ in range(5)]

    def long(i: int) -> dict[str, Any]:
        return {"temperature": 0.0, "ignore_eos": True}
    expected = alone(load(**EXACT, context_size=128), prompts, long)
    model = load(**EXACT, context_size=128, cache_tokens=192)
    with caplog.at_level("INFO", "unladen"):
        got = together(model, prompts, long)
    assert 0 < n_sent_back(caplog) <= len(prompts), "each at most once"
    check_same(got, expected)
    assert all(c.usage.n_cached == 0 for c in got), "what it computed itself isn't a find"
    assert all(c.timings.n_prompt == 30 for c in got)
    check_idle(model)


@pytest.mark.parametrize("kv_type", ["f32", "f16"])
def test_on_the_cpu(load: Load, prompts: Prompts, kv_type: str) -> None:
    """Kernels sum in another order when a step has one row. So tokens agree until the two best
    logits are closer than this difference."""
    expected = alone(load(kv_type=kv_type), prompts, greedy)
    model = load(kv_type=kv_type, batch_size=20, max_seqs=4)
    bound = 1e-3 if kv_type == "f32" else 5e-2
    n_compared = 0
    for got, want in zip(together(model, prompts, greedy), expected, strict=True):
        pairs = zip(got.logprobs or (), want.logprobs or (), strict=False)
        for a, b in pairs:
            if a.token != b.token:
                assert abs(a.logprob - b.top[0][1]) < bound
                break
            assert abs(a.logprob - b.logprob) < bound
            n_compared += 1
    assert n_compared > 20
    check_idle(model)


def test_prefixes_are_reused(load: Load, rng: np.random.Generator) -> None:
    shared = rng.integers(3, N_VOCAB, 70).tolist()
    prompts = [shared + rng.integers(3, N_VOCAB, n).tolist() for n in (1, 9, 40)]
    expected = alone(load(**EXACT), prompts[:1], seeded)[0]
    model = load(**EXACT)
    first = model.generate(prompts[0], **seeded(0))
    assert first.usage.n_cached == 0
    again = model.generate(prompts[0], **seeded(0))
    assert again.usage.n_cached == 64 and again.timings.n_prompt == 71 - 64
    check_same([first, again], [expected, expected])
    for i, prompt in enumerate(prompts):
        fresh = load(**EXACT).generate(prompt, **greedy(i))
        reused = model.generate(prompt, **greedy(i))
        assert reused.usage.n_cached == 64
        check_same([reused], [fresh])
    check_idle(model)


def test_a_conversation_reuses_what_was_generated(load: Load, rng: np.random.Generator) -> None:
    model = load(**EXACT)
    history = rng.integers(3, N_VOCAB, 40).tolist()
    first = model.generate(history, temperature=0.0, max_tokens=30)
    longer = [*history, *first.tokens, 50]
    second = model.generate(longer, temperature=0.0, max_tokens=5)
    assert second.usage.n_cached == 64
    check_same([second], [load(**EXACT).generate(longer, temperature=0.0, max_tokens=5)])


def test_logits_whole_in_chunks_and_interleaved(load: Load, rng: np.random.Generator) -> None:
    tokens = rng.integers(3, N_VOCAB, 77).tolist()
    expected = load(**EXACT).logits(tokens)
    assert expected.shape == (77, N_VOCAB) and expected.dtype == np.float32
    for options in ({"batch_size": 5}, {"batch_size": 1}, {"max_seqs": 1}):
        assert np.abs(load(**EXACT, **options).logits(tokens) - expected).max() < 1e-6
    model = load(**EXACT, batch_size=24)
    other = model.stream(rng.integers(3, N_VOCAB, 50).tolist(), temperature=0.0, max_tokens=40)
    next(other)
    assert np.abs(model.logits(tokens) - expected).max() < 1e-6
    other.close()
    check_idle(model)


def test_logits_after_other_sequences_do_not_see_them(load: Load, rng: np.random.Generator
                                                      ) -> None:
    tokens = rng.integers(3, N_VOCAB, 40).tolist()
    model = load(**EXACT)
    expected = model.logits(tokens)
    model.generate(tokens[:20], temperature=0.0, max_tokens=50)
    assert np.array_equal(model.logits(tokens), expected)


@pytest.mark.parametrize("bulk", [False, True])
def test_bad_logits_hurt_only_their_own_request(load: Load, rng: np.random.Generator,
                                                tmp_path: Path, bulk: bool) -> None:
    """With a NaN in one token's embedding, only requests with that token in the prompt fail."""
    bad = 77
    table, head = rng.standard_normal((2, N_VOCAB, 64)).astype(np.float32)
    table[bad], head[bad] = np.nan, 0  # and no request chooses it
    path = write_tiny(tmp_path / "nan.gguf", rng,
                      changed={"token_embd.weight": table, "output.weight": head})
    prompts = [[10, 11, 12], [10, bad, 12], [20, 21]] + ([[30]] * 3 if bulk else [])
    with Model(path, **EXACT) as fresh:
        expected = [fresh.generate(p, temperature=0.0, max_tokens=10) for p in prompts
                    if bad not in p]
    with Model(path, **EXACT) as model:
        streams = [model.stream(p, temperature=0.0, max_tokens=10) for p in prompts]
        got = []
        for prompt, stream in zip(prompts, streams, strict=True):
            if bad in prompt:
                with pytest.raises(BadLogits):
                    list(stream)
            else:
                assert "".join(stream) == stream.result.text
                got.append(stream.result)
        check_same(got, expected)
        check_idle(model)
        with pytest.raises(BadLogits):
            model.generate([bad], max_tokens=3)
