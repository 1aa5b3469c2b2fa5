"""The harness's requests equal sums of log-probabilities that are computed by hand."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tiny_model import BOS, write_tiny
from unladen import Model
from unladen.errors import InvalidArgument
from unladen.lm_eval import Scorer, lm

CONTEXT = 96


class Asked(NamedTuple):
    args: tuple[Any, ...]


def asked(*args: Any) -> Asked:
    return Asked(args)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return Model("tiny", kv_type="f32")


@pytest.fixture
def short(tmp_path: Path, rng: np.random.Generator) -> Model:
    return Model(write_tiny(tmp_path / "short.gguf", rng, context=CONTEXT), kv_type="f32")


def by_hand(model: Model, before: list[int], wanted: list[int]) -> tuple[float, bool]:
    """The sum of the log-softmax of each wanted token, each from a call of its own."""
    total, greedy = 0.0, True
    for token in wanted:
        row = model.logits(before)[-1].astype(np.float64)
        total += row[token] - math.log(np.exp(row - row.max()).sum()) - row.max()
        greedy = greedy and int(row.argmax()) == token
        before = [*before, token]
    return total, greedy


@pytest.mark.parametrize(("context", "continuation"), [
    ("Once upon a time", " there was a girl"), ("Once upon a time ", "there was a"),
    ("Once upon a ti", "me there"), ("The cat", "\n\n"), ("  ", "One day"), ("One", " "),
    ("One day,", " h\u00e9 said: \u201cno\u201d"), ("", "Once upon a time")])
def test_loglikelihood(tiny: Model, context: str, continuation: str) -> None:
    ((value, greedy),) = Scorer(tiny).loglikelihood([asked(context, continuation)])
    tokens = tiny.tokenize(context + continuation)
    known = tiny.tokenize(context.rstrip()) if context.strip() else tokens[:1]
    expected, best = by_hand(tiny, known, tokens[len(known):])
    assert value == pytest.approx(expected, abs=1e-3) and greedy == best


def test_what_greedy_decoding_writes_is_greedy(tiny: Model) -> None:
    prompt = "Once upon a time"
    written = tiny.generate(prompt, temperature=0.0, max_tokens=8).text
    results = Scorer(tiny).loglikelihood([asked(prompt, written), asked(prompt, " xylophone")])
    assert [greedy for _, greedy in results] == [True, False]
    assert results[0][0] > results[1][0]


def test_choices_of_one_context_share_its_computation(tiny: Model,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    whole = tiny.logits
    monkeypatch.setattr(tiny, "logits", lambda ids: computed.append(len(ids)) or whole(ids))
    scorer = Scorer(tiny)
    requests = [asked("Once upon a", f" {word}") for word in ("time", "day", "time", "time")]
    results = scorer.loglikelihood(requests)
    assert computed == [1] and results[0] == results[2] == results[3] != results[1]


def test_a_merge_over_the_border(tiny: Model) -> None:
    """The tokens of the whole text after as many as the context has, as in the harness."""
    pair = Scorer(tiny).pair("Once upon a ti", "me")
    assert list(pair.context) == tiny.tokenize("Once upon a ti")
    assert list(pair.wanted) == tiny.tokenize("Once upon a time")[len(pair.context):]


def test_what_is_too_long_loses_its_beginning(short: Model, rng: np.random.Generator) -> None:
    before = "".join(rng.choice(list("abcdefgh"), 3 * CONTEXT).tolist())
    scorer = Scorer(short)
    ((value, greedy),) = scorer.loglikelihood([asked(before, "abc")])
    pair = scorer.pair(before, "abc")
    ids = [*pair.context, *pair.wanted][-(CONTEXT + 1):]
    n = len(pair.wanted)
    assert len(ids) == CONTEXT + 1
    rows = short.logits(ids[:-1])[-n:].astype(np.float64)
    logprobs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    assert value == pytest.approx(sum(logprobs[i, t] for i, t in enumerate(pair.wanted)), abs=1e-4)
    assert greedy == (rows.argmax(axis=1).tolist() == list(pair.wanted))
    with pytest.raises(InvalidArgument, match="context_size"):
        scorer.loglikelihood([asked("a", before)])


@pytest.mark.parametrize("n", [1, CONTEXT - 1, CONTEXT, CONTEXT + 1, 3 * CONTEXT + 7])
def test_rolling_scores_each_token_once(short: Model, n: int, rng: np.random.Generator) -> None:
    text = "".join(rng.choice(list("abcdefgh"), n).tolist())
    ids = short.tokenize(text, add_special=False)
    (value,) = Scorer(short).loglikelihood_rolling([asked(text)])
    expected, at = 0.0, 0
    while at < len(ids):
        end = min(at + CONTEXT, len(ids))
        inputs = ([BOS, *ids] if at == 0 else ids)[max(0, end - CONTEXT - (at > 0)):]
        inputs = [BOS, *ids[:end - 1]] if at == 0 else ids[end - CONTEXT - 1:end - 1]
        rows = short.logits(inputs)[-(end - at):].astype(np.float64)
        logprobs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        expected += sum(logprobs[i, t] for i, t in enumerate(ids[at:end]))
        at = end
    assert value == pytest.approx(expected, abs=1e-3)
    assert Scorer(short).loglikelihood_rolling([asked(""), asked(text)]) == [0.0, value]


def test_generate_until(tiny: Model) -> None:
    prompt = "Once upon a time"
    whole = tiny.generate(prompt, temperature=0.0, max_tokens=30).text
    ends = whole[10]
    scorer = Scorer(tiny, max_gen_toks=30)
    texts = scorer.generate_until([
        asked(prompt, {"until": [ends], "max_gen_toks": 30}),
        asked(prompt, {"until": ["", "@@@"], "do_sample": False, "temperature": 0.7}),
        asked(prompt, {"until": "@@@", "max_gen_toks": 5}),
        asked(prompt, {"do_sample": True, "temperature": 2.0, "seed": 3, "max_new_tokens": 30})])
    assert texts[0] == whole[:whole.index(ends)] and texts[1] == whole
    assert whole.startswith(texts[2]) and len(texts[2]) < len(whole)
    assert texts[3] == tiny.generate(prompt, temperature=2.0, seed=3, max_tokens=30).text


def test_wrong_requests(short: Model) -> None:
    scorer = Scorer(short)
    with pytest.raises(InvalidArgument, match="max_gen_toks"):
        scorer.generate_until([asked("a", {})])
    with pytest.raises(InvalidArgument, match="did you mean top_k"):
        scorer.generate_until([asked("a", {"topk": 3, "max_gen_toks": 3})])
    with pytest.raises(InvalidArgument, match="model must be"):
        Scorer("tiny")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="add_bos"):
        Scorer(short, add_bos="no")  # type: ignore[arg-type]


def test_nothing_asked_nothing_given(short: Model) -> None:
    scorer = Scorer(short)
    assert scorer.loglikelihood([]) == scorer.loglikelihood_rolling([]) == []
    assert scorer.generate_until([]) == []
    assert scorer.loglikelihood([asked("a", "")]) == [(0.0, True)]


def test_without_the_harness(short: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(InvalidArgument, match=r"unladen\[lm-eval\]"):
        lm(short)


def test_the_harness_itself(short: Model) -> None:
    pytest.importorskip("lm_eval", reason="the extra lm-eval isn't installed")
    from lm_eval.api.model import LM
    made = lm(short)
    assert isinstance(made, LM) and made.world_size == 1
    assert made.loglikelihood([asked("a", "b")]) == Scorer(short).loglikelihood([asked("a", "b")])
