"""Answers of a given form: tokens that are forced cost no step, and nothing else changes them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy.random import Generator

import unladen
from engine.conftest import check_idle
from engine.test_ahead import Log
from engine.test_speculate import eager
from unladen import Model, SamplerChain
from unladen.errors import (
    ConstraintFailed,
    ContextOverflow,
    InvalidArgument,
    UnsupportedSchema,
)
from unladen.sample import Step
from unladen.sample.constrain.guide import Guided

pytest.importorskip("llguidance")

PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 30}, "kind": {"enum": ["person", "place"]},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3}},
    "required": ["name", "kind", "tags"], "additionalProperties": False}
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model("tiny", devices=["cpu"], speculate=False, deterministic=True) as model:
        yield model


@pytest.fixture(scope="module")
def drafting() -> Iterator[Model]:
    with Model("tiny", devices=["cpu"], deterministic=True) as model:
        yield eager(model)


def seeds(rng: Generator, n: int) -> list[int]:
    return [int(seed) for seed in rng.integers(0, 2**31, n)]


CHAINS: list[Any] = [
    {}, {"temperature": 0.0}, {"top_k": 3}, {"mirostat": 2}, {"min_p": 0.2, "xtc_probability": 0.5},
    {"repeat_penalty": 1.3, "dry_multiplier": 0.8}, {"adaptive_target": 0.3}, {"ignore_eos": True},
    {"typical_p": 0.7, "top_n_sigma": 1.0, "dynatemp_range": 0.3}]


@pytest.mark.parametrize("sampling", CHAINS)
def test_every_step_of_the_sampler(rng: Generator, model: Model, sampling: Any) -> None:
    for seed in seeds(rng, 3):
        result = model.generate(PROMPT, response_format=PERSON, seed=seed, **sampling)
        assert set(json.loads(result.text)) == {"name", "kind", "tags"}
        assert result.stop_reason == "eos"
    check_idle(model)


def test_forced_tokens_cost_no_step(rng: Generator, model: Model) -> None:
    log = Log(model)
    result = model.generate(PROMPT, response_format=PERSON, seed=seeds(rng, 1)[0])
    n_forced = len(model.tokenize('name": "", "kind": "', add_bos=False)) - 3
    assert log.events.count("run") < len(result.tokens) - n_forced


def test_the_same_however_it_is_computed(rng: Generator, model: Model, drafting: Model) -> None:
    """With drafts, with log-probabilities, in a batch, with other requests, in a session, from
    coroutines: the same tokens."""
    n = 8
    chosen = seeds(rng, n)
    form = {"temperature": 1.0, "response_format": PERSON}
    expected = [model.generate(PROMPT, seed=seed, **form) for seed in chosen]
    logprobs = [model.generate(PROMPT, seed=seed, logprobs=2, **form) for seed in chosen]
    for plain, told in zip(expected, logprobs, strict=True):
        assert told.tokens == plain.tokens and told.logprobs is not None
        assert [each.token for each in told.logprobs] == plain.tokens
    streams = [drafting.stream(PROMPT, seed=seed, **form) for seed in chosen]
    other = drafting.stream(PROMPT, max_tokens=60, temperature=0.0)
    for stream, plain in zip(streams, expected, strict=True):
        assert "".join(stream) == plain.text
        assert stream.result.tokens == plain.tokens
    assert "".join(other) == model.generate(PROMPT, max_tokens=60, temperature=0.0).text

    async def together() -> list[Any]:
        return await asyncio.gather(*(model.agenerate(PROMPT, seed=seed, **form)
                                      for seed in chosen))
    assert [r.tokens for r in asyncio.run(together())] == [r.tokens for r in expected]
    with model.session(PROMPT) as session:
        assert session.generate(seed=chosen[0], **form).tokens == expected[0].tokens
        again = session.generate(" And so", seed=chosen[1], **form)
        assert set(json.loads(again.text)) == {"name", "kind", "tags"}
    for each in (model, drafting):
        check_idle(each)


def test_drafts_that_come_true(rng: Generator, model: Model, drafting: Model) -> None:
    """A text that repeats itself is drafted, and what the constraint forbids is cut off."""
    form = unladen.regex("[a-c]{50}")
    bias = {model.tokenize("a", add_bos=False)[-1]: 6.0}
    n_accepted = 0
    for temperature in (0.0, 0.3, 1.0):
        for seed in seeds(rng, 3):
            results = [each.generate(PROMPT, response_format=form, seed=seed, max_tokens=60,
                                     temperature=temperature, logit_bias=bias)
                       for each in (model, drafting)]
            assert results[0].tokens == results[1].tokens
            n_accepted += results[1].timings.n_accepted
    assert n_accepted > 0
    check_idle(drafting)


def test_several_answers_differ(model: Model) -> None:
    results = model.generate([PROMPT] * 6, response_format=PERSON, temperature=1.0)
    assert all(json.loads(r.text)["kind"] in ("person", "place") for r in results)
    assert len({r.text for r in results}) > 1


def test_a_sampler_of_the_callers(model: Model) -> None:
    chain = SamplerChain().top_k(20).dist(3)
    result = model.generate(PROMPT, response_format=PERSON, sampler=chain)
    assert set(json.loads(result.text)) == {"name", "kind", "tags"}
    with pytest.raises(InvalidArgument, match="must be a SamplerChain where response_format"):
        model.generate(PROMPT, response_format=PERSON, sampler=chain.build())


def test_ends_and_stops(model: Model) -> None:
    """An answer that can only end here ends without a step; limits and stop strings hold."""
    exact = model.generate(PROMPT, response_format=unladen.regex("the cat sat on the mat"))
    assert (exact.text, exact.stop_reason) == ("the cat sat on the mat", "eos")
    cut = model.generate(PROMPT, response_format=unladen.regex("the cat sat on the mat"),
                         max_tokens=3)
    assert (len(cut.tokens), cut.stop_reason) == (3, "length")
    assert "the cat sat on the mat".startswith(cut.text)
    stopped = model.generate(PROMPT, response_format=unladen.regex("the cat sat on the mat"),
                             stop=" sat")
    assert (stopped.text, stopped.stop_reason) == ("the cat", "stop")


NEVER_ENOUGH = {"type": "array", "minItems": 1, "items": {
    "type": "object", "properties": {"note": {"type": "string"}, "size": {"type": "number"},
                                     "more": {"type": "object"}},
    "required": ["note", "size"], "additionalProperties": False}}


@pytest.mark.parametrize("max_tokens", [40, 75, 150])
def test_an_answer_ends_in_time(rng: Generator, model: Model, drafting: Model, max_tokens: int
                                ) -> None:
    """JSON that would go on is brought to its end before it breaks off, and said to be cut: the
    same way with drafts and with log-probabilities."""
    reasons = set()
    for seed in seeds(rng, 4):
        form = {"response_format": NEVER_ENOUGH, "seed": seed, "max_tokens": max_tokens}
        result = model.generate(PROMPT, **form)
        assert len(result.tokens) <= max_tokens
        assert json.loads(result.text)[0].keys() >= {"note", "size"}
        reasons.add(result.stop_reason)
        assert drafting.generate(PROMPT, **form).tokens == result.tokens
        assert model.generate(PROMPT, **form, logprobs=0).tokens == result.tokens
    assert "length" in reasons and reasons <= {"length", "eos"}


FIELDS = {"type": "object", "properties": {
    **{f"field_{i}": {"type": "integer"} for i in range(8)},
    "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": [*(f"field_{i}" for i in range(8)), "next"], "additionalProperties": False}


def test_as_many_tokens_as_the_shortest_answer(rng: Generator, model: Model, drafting: Model
                                               ) -> None:
    """With fewer, the request is refused before anything runs, and the error has the numbers; with
    as many or some more, every answer is valid."""
    jsonschema = pytest.importorskip("jsonschema")
    form: dict[str, Any] = {"response_format": FIELDS, "temperature": 1.0}
    log = Log(model)
    with pytest.raises(InvalidArgument, match="max_tokens is 12") as refused:
        model.generate(PROMPT, max_tokens=12, **form)
    assert not log.events
    n_least = int(re.search(r"takes (\d+) tokens", str(refused.value))[1])  # type: ignore[index]
    with pytest.raises(InvalidArgument, match=f"allow {n_least} tokens"):
        model.generate(PROMPT, max_tokens=n_least - 1, **form)
    for more in (0, 1, 2, 7, 60):
        for seed in seeds(rng, 2):
            form.update(seed=seed, max_tokens=n_least + more)
            result = model.generate(PROMPT, **form)
            jsonschema.validate(json.loads(result.text), FIELDS)
            assert drafting.generate(PROMPT, **form).tokens == result.tokens
            assert model.generate(PROMPT, **form, logprobs=0).tokens == result.tokens
    for each in (model, drafting):
        check_idle(each)


def test_a_prompt_that_leaves_too_little_room(model: Model) -> None:
    prompt = [5] * (model.context_size - 10)
    with pytest.raises(ContextOverflow, match=r"10 of \d+ are left") as refused:
        model.generate(prompt, response_format=FIELDS)
    assert refused.value.n_tokens > refused.value.limit == model.context_size
    with model.session(prompt) as session, pytest.raises(ContextOverflow, match="context_size"):
        session.generate(response_format=FIELDS)
    check_idle(model)


def test_the_same_with_a_step_of_the_callers(rng: Generator, model: Model) -> None:
    """A chain with such a step isn't hurried, so nothing is said beforehand."""

    class Plain(Step):
        name = "plain"

        def apply(self, candidates: Any, state: Any) -> None:
            assert len(candidates.ids)
    chain = SamplerChain().step(Plain()).dist(seeds(rng, 1)[0])
    result = model.generate(PROMPT, response_format=FIELDS, sampler=chain, max_tokens=12)
    assert (len(result.tokens), result.stop_reason) == (12, "length")


def test_text_that_may_end_anywhere_is_not_hurried(model: Model) -> None:
    form = {"temperature": 0.0, "max_tokens": 40}
    free = model.generate(PROMPT, **form)
    result = model.generate(PROMPT, response_format=unladen.regex("(?s:.)*"), **form)
    assert result.tokens == free.tokens and result.stop_reason == "length"


@pytest.mark.parametrize(("form", "check"), [
    (unladen.grammar('root ::= "yes" | "no"'), lambda text: text in ("yes", "no")),
    (unladen.lark('start: "yes" | "no"'), lambda text: text in ("yes", "no")),
    (unladen.regex("[0-9]{3}"), lambda text: len(text) == 3 and text.isdigit()),
    (unladen.json_schema({"enum": [1, "a"]}), lambda text: json.loads(text) in (1, "a")),
    (unladen.json_schema('{"const": null}'), lambda text: text == "null"),
    ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 5}}},
     lambda text: text == "5"),
    ({"type": "json_schema", "name": "x", "schema": {"const": 5}}, lambda text: text == "5"),
    (bool, lambda text: text in ("true", "false")),
    (tuple[bool, bool], lambda text: len(json.loads(text)) == 2),
    ({"type": "text"}, lambda text: True), (None, lambda text: True)])
def test_forms(model: Model, form: Any, check: Any) -> None:
    assert check(model.generate(PROMPT, response_format=form, max_tokens=40).text)


@pytest.mark.parametrize(("form", "error"), [
    ({"not": {}}, UnsupportedSchema), ("json", InvalidArgument), (5, InvalidArgument),
    (set[int], InvalidArgument), ({"type": "json_schema"}, InvalidArgument),
    (unladen.lark("start: x"), InvalidArgument)])
def test_errors_come_before_anything_runs(model: Model, form: Any, error: type[Exception]) -> None:
    log = Log(model)
    with pytest.raises(error):
        model.generate(PROMPT, response_format=form)
    with pytest.raises(error):
        model.stream(PROMPT, response_format=form)
    assert not log.events


def test_a_constraint_that_fails_ends_its_request_alone(
        model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model.generate(PROMPT, response_format=PERSON, seed=1)
    good = model.stream(PROMPT, response_format=PERSON, seed=1)
    bad = model.stream(PROMPT, response_format=PERSON, seed=2)
    next(good)
    broken = next(r.sampler for r in model.engine._admission.everyone()
                  if r.sampler is not None and r.sampler.seed == 2)
    victim = broken._constraints[0]._constraint

    def mask(self: Guided, out: Any) -> None:
        if self is victim:
            raise ConstraintFailed("no more")
        real(self, out)
    real = Guided.mask
    monkeypatch.setattr(Guided, "mask", mask)
    with pytest.raises(ConstraintFailed, match="no more"):
        list(bad)
    list(good)
    assert good.result.tokens == expected.tokens
    check_idle(model)


@pytest.mark.parametrize("method", ["forced", "rollback"])
def test_a_constraint_that_fails_ahead_ends_its_request_alone(
        model: Model, drafting: Model, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """An exception in the thread that makes masks; the engine goes on afterwards."""
    form = {"response_format": unladen.regex("[a-c]{50}"), "seed": 1, "max_tokens": 60,
            "temperature": 0.0, "logit_bias": {model.tokenize("a", add_bos=False)[-1]: 6.0}}
    each = model if method == "forced" else drafting
    expected = each.generate(PROMPT, **form)
    threads = set[str]()

    def fails(self: Guided, *args: Any) -> Any:
        threads.add(threading.current_thread().name.rpartition("_")[0])
        raise ConstraintFailed("no more")
    other = each.stream(PROMPT, max_tokens=60, temperature=0.0)
    next(other)
    with monkeypatch.context() as patch:
        patch.setattr(Guided, method, fails)
        with pytest.raises(ConstraintFailed, match="no more"):
            each.generate(PROMPT, **form)
    assert threads == {"unladen-masks"}
    list(other)
    assert other.result.tokens == each.generate(PROMPT, max_tokens=60, temperature=0.0).tokens
    assert each.generate(PROMPT, **form).tokens == expected.tokens
    check_idle(each)


@pytest.mark.parametrize("bias", [-100.0, -1e6])
def test_a_finite_bias_does_not_matter_where_one_token_is_left(model: Model, bias: float) -> None:
    form = {"response_format": unladen.regex("the cat sat on the mat")}
    expected = model.generate(PROMPT, **form)
    against = dict.fromkeys(expected.tokens, bias)
    result = model.generate(PROMPT, **form, logit_bias=against)
    assert (result.tokens, result.stop_reason) == (expected.tokens, "eos")


def assert_bans(error: ConstraintFailed, token: int) -> None:
    assert f"logit_bias bans every token that the answer's form allows here: {token}" in str(error)


@pytest.mark.parametrize("logprobs", [None, 0])
def test_a_banned_token_never_comes(model: Model, drafting: Model, logprobs: int | None) -> None:
    """Where no other token is allowed the request fails alone, with an error that says so. A ban of
    the end doesn't keep a complete text from ending."""
    form = {"response_format": unladen.regex("the (cat sat on the mat|dog)"), "logprobs": logprobs,
            "temperature": 0.0}
    expected = model.generate(PROMPT, **form)
    other = model.stream(PROMPT, max_tokens=40, temperature=0.0)
    next(other)
    n_failed = 0
    for each in (model, drafting):
        for token in expected.tokens:
            bias = {token: -float("inf")}
            try:
                result = each.generate(PROMPT, **form, logit_bias=bias, ignore_eos=True)
            except ConstraintFailed as error:
                assert_bans(error, token)
                n_failed += 1
            else:
                assert (result.stop_reason, token in result.tokens) == ("eos", False)
                assert result.text in ("the cat sat on the mat", "the dog")
    assert 0 < n_failed < 2 * len(expected.tokens)
    list(other)
    assert other.result.tokens == model.generate(PROMPT, max_tokens=40, temperature=0.0).tokens
    check_idle(model)


def test_a_way_to_the_end_has_no_banned_token(model: Model) -> None:
    """A text that has to end in time ends with other tokens, or is cut off."""
    form = {"response_format": {"type": "array", "items": {"enum": ["a"]}, "minItems": 1},
            "max_tokens": 30, "temperature": 0.0}
    used = set(model.generate(PROMPT, **form).tokens)
    banned = model.tokenize("]", add_bos=False)[-1:]
    result = model.generate(PROMPT, **form, logit_bias=dict.fromkeys(banned, -float("inf")))
    assert used and not set(result.tokens) & set(banned)


def test_a_child_of_a_step_has_its_masks(model: Model) -> None:
    """A process that forks inside a step of a request with a constraint: both finish it."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    expected = model.generate(PROMPT, response_format=PERSON, seed=5)
    plan, parent, children = model.engine.plan, os.getpid(), list[int]()
    run = plan.run

    def forks() -> None:
        run()
        if not children:
            children.append(os.fork())
    plan.run = forks  # type: ignore[method-assign]
    try:
        result = model.generate(PROMPT, response_format=PERSON, seed=5)
    except BaseException:
        if os.getpid() != parent:
            os._exit(2)
        raise
    finally:
        plan.run = run  # type: ignore[method-assign]
    if os.getpid() != parent:
        os._exit(0 if result.tokens == expected.tokens else 3)
    assert result.tokens == expected.tokens
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    check_idle(model)


def test_shared_schemas(shared: Path, rng: Generator, model: Model, drafting: Model) -> None:
    """Answers at temperature 1 validate, alone and in a batch of 8 with drafts."""
    jsonschema = pytest.importorskip("jsonschema")
    schemas = [each for each in json.loads((shared / "chat/schemas.json").read_text())["schemas"]
               if not each.get("may_refuse")]
    for i in rng.choice(len(schemas), 12, replace=False):
        schema = schemas[i]["schema"]
        validator = jsonschema.validators.validator_for(schema)(
            schema, format_checker=jsonschema.FormatChecker())
        for each, n in ((model, 1), (drafting, 8)):
            for result in each.generate([PROMPT] * n, response_format=schema, temperature=1.0):
                validator.validate(json.loads(result.text))
