"""How a generation begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from engine.conftest import CONTEXT, EXACT, Load, check_idle, scripted
from tiny_model import EOS, FIRST_BYTE, N_VOCAB
from unladen import Model, SamplerChain
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.sample.base import Candidates, State, Step


@pytest.fixture
def model(load: Load) -> Model:
    return load(**EXACT)


def spell(text: str) -> list[int]:
    """One token for each byte."""
    return [FIRST_BYTE + b for b in text.encode()]


@pytest.mark.parametrize(("written", "stop", "text"), [
    ("one two three", "two", "one "), ("one two three", ["three", "two"], "one "),
    ("aaab", "aab", "a"), ("h\u00e9llo", "\u00e9", "h"), ("h\u00e9llo", "\u00e9ll", "h"),
    ("one two", "twx", "one two"), ("one two", "two!", "one two"), ("stop", "s", "")])
def test_stop_strings_across_tokens(model: Model, written: str, stop: str | Sequence[str],
                                    text: str) -> None:
    n = len(written.encode())
    stream = model.stream([5, 6], max_tokens=n, stop=stop, sampler=scripted(spell(written)))
    pieces = list(stream)
    assert "".join(pieces) == stream.result.text == text
    assert stream.result.stop_reason == ("length" if text == written else "stop")
    stops = [stop] if isinstance(stop, str) else stop
    longest = max(map(len, stops))
    assert all(text.startswith("".join(pieces[:i])) for i in range(len(pieces)))
    assert len(stream.result.tokens) <= len((text + "x" * longest).encode()) + 4
    check_idle(model)


def test_a_stop_string_inside_one_token(model: Model) -> None:
    ab = N_VOCAB - 1
    assert model.tokenizer.token_bytes(ab) == b"ab"
    result = model.generate([5], max_tokens=5, stop="b", sampler=scripted([ab]))
    assert (result.text, result.tokens, result.stop_reason) == ("a", [ab], "stop")


def test_half_a_character_at_the_end(model: Model) -> None:
    result = model.generate([5], max_tokens=2, sampler=scripted(spell("\u20ac")))
    assert (result.text, result.stop_reason) == ("\ufffd", "length")


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 33])
def test_max_tokens(model: Model, max_tokens: int) -> None:
    result = model.generate([5, 6, 7], max_tokens=max_tokens, temperature=0.0)
    assert len(result.tokens) == max_tokens == result.usage.n_completion
    assert result.stop_reason == "length"
    assert result.usage.n_prompt == 3 and result.usage.n_total == 3 + max_tokens
    check_idle(model)


@pytest.mark.parametrize("n_prompt", [1, 31, 32, 33, CONTEXT - 1])
def test_the_context_fills_up(model: Model, rng: np.random.Generator, n_prompt: int) -> None:
    result = model.generate(rng.integers(3, N_VOCAB, n_prompt).tolist(), temperature=0.0)
    assert n_prompt + len(result.tokens) == CONTEXT
    assert result.stop_reason == "context"
    check_idle(model)


def test_end_token(model: Model) -> None:
    result = model.generate([5], max_tokens=10, sampler=scripted([*spell("ab"), EOS, *spell("c")]))
    assert (result.text, result.stop_reason) == ("ab", "eos")
    assert result.tokens == spell("ab"), "the end token isn't part of it"


def test_end_token_at_once(model: Model) -> None:
    result = model.generate([5], sampler=scripted([EOS]))
    assert (result.text, result.tokens, result.stop_reason) == ("", [], "eos")


def test_logprobs(model: Model) -> None:
    prompt = [5, 6, 7]
    result = model.generate(prompt, max_tokens=6, temperature=0.0, logprobs=4)
    assert result.logprobs is not None and len(result.logprobs) == 6
    rows = model.logits(prompt + result.tokens)[2:-1].astype(np.float64)
    expected = rows - np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)
                             ) - rows.max(1, keepdims=True)
    for token, found, row in zip(result.tokens, result.logprobs, expected, strict=True):
        assert found.token == token == found.top[0][0]
        assert abs(found.logprob - row[token]) < 1e-5
        assert [t for t, _ in found.top] == np.argsort(-row)[:4].tolist()
    for n, top in ((None, None), (0, 0)):
        again = model.generate(prompt, max_tokens=2, temperature=0.0, logprobs=n).logprobs
        assert again is None if top is None else again is not None and not again[0].top


@pytest.mark.parametrize("prompt", [np.zeros(0, int), [N_VOCAB], [-1], [1.5], [1, "a"],
                                    [2**40]])
def test_bad_prompts(model: Model, prompt: Any) -> None:
    with pytest.raises(InvalidArgument):
        model.generate(prompt, max_tokens=2)
    with pytest.raises(InvalidArgument):
        model.logits(prompt)
    check_idle(model)


def test_prompts_longer_than_the_context(model: Model) -> None:
    with pytest.raises(ContextOverflow, match=f"{CONTEXT} tokens.*context of {CONTEXT} holds"):
        model.generate([5] * CONTEXT)
    assert model.logits([5] * CONTEXT).shape == (CONTEXT, N_VOCAB)
    with pytest.raises(ContextOverflow):
        model.logits([5] * (CONTEXT + 1))


@dataclass(frozen=True)
class Faulty(Step):
    """Raises at the third token."""

    name: ClassVar[str] = "faulty"
    chooses: ClassVar[bool] = True

    def apply(self, candidates: Candidates, state: State) -> None:
        if len(state.recent(-1)) == 4:
            raise ZeroDivisionError("a mistake in somebody's step")
        candidates.chosen = 9


def test_a_faulty_step_fails_its_own_request(model: Model) -> None:
    good = model.stream([5, 6], max_tokens=9, temperature=0.0)
    other = model.stream([7, 8], max_tokens=9, temperature=0.0)
    bad = model.stream([5, 7], max_tokens=9, sampler=SamplerChain().step(Faulty()).build())
    assert len("".join(good)) >= 0 and good.result.stop_reason == "length"
    with pytest.raises(ZeroDivisionError):
        list(bad)
    assert bad.result.tokens == [9, 9]
    list(other)
    for stream, prompt in ((good, [5, 6]), (other, [7, 8])):
        assert stream.result.tokens == model.generate(prompt, max_tokens=9, temperature=0.0).tokens
    check_idle(model)
