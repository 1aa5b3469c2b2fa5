"""An error that one request causes ends that request alone; the others go on as if alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from engine.test_speculate import eager
from engine.trouble import (
    ANSWERS,
    BROKEN,
    DETERMINISTIC,
    NO_TOKENS,
    WAYS,
    Acts,
    Constraining,
    Make,
    Picks,
    Trouble,
    raises,
)
from tiny_model import N_VOCAB
from unladen import Model, SamplerChain
from unladen.cache import CachedSequence
from unladen.engine import Request
from unladen.errors import InvalidArgument
from unladen.graph.batch import Batch
from unladen.tokenizer import StreamDecoder

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 30}
PROMPTS = ([9, 20, 31, 8] * 6, [5, 6], [7] * 40)


@pytest.fixture(params=["plain", "drafts", "ahead"])
def model(load: Load, request: pytest.FixtureRequest) -> Model:
    """A model in three ways: each step ends before the next one begins; with drafts; with tokens
    chosen on the device and steps ahead."""
    if request.param == "ahead":
        made = load(**EXACT, speculate=False)
        assert made.engine.plan.runs_ahead
    else:
        made = load(**DETERMINISTIC, speculate=False)
    made.tokenizer.eog_ids = frozenset()
    return eager(made) if request.param == "drafts" else made


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_beside_others(model: Model, make: Make) -> None:
    """One request's thread runs the steps, which the guilty requests are part of: no other request
    is affected."""
    sampling = [{"seed": 3}, {"temperature": 0.0}, {"temperature": 0.7, "seed": 1}]
    expected = [model.generate(p, max_tokens=30, **s)
                for p, s in zip(PROMPTS, sampling, strict=True)]
    for at in (0, 3):
        request, error = make(model, [11, 12, 13], 25, at)
        streams = [model.stream(p, max_tokens=30, **s)
                   for p, s in zip(PROMPTS[1:], sampling[1:], strict=True)]
        model.engine.submit(request)
        thread = threading.Thread(target=list, args=(streams[0],))
        thread.start()
        # In the main thread, an exit would count as a signal handler's.
        with ThreadPoolExecutor(1) as other:
            first = other.submit(model.generate, PROMPTS[0], max_tokens=30, **sampling[0]).result()
        thread.join()
        list(streams[1])
        for got, wanted in zip([first, *(s.result for s in streams)], expected, strict=True):
            assert (got.text, got.tokens) == (wanted.text, wanted.tokens)
        model.engine.finish(request)
        assert type(request.error) is error
        if error is not SystemExit:
            check_no_trace(model, request, at)
        check_idle(model)


def check_no_trace(model: Model, request: Request, at: int) -> None:
    """Check that a request has the tokens before the one that failed, their text, and nothing of
    the failed one."""
    generated = request.tokens[request.n_prompt:]
    assert len(generated) in (at, 0) and request.stop_reason is None
    assert all(type(token) is int and 0 <= token < N_VOCAB for token in generated)
    decoder = StreamDecoder(model.tokenizer)
    assert request.completion().text == "".join(map(decoder.push, generated))
    assert not request._logprobs


@pytest.mark.parametrize("token", NO_TOKENS,
                         ids=lambda token: "object" if type(token) is object else repr(token))
def test_no_token_of_the_vocabulary(model: Model, token: Any) -> None:
    for chain in (SamplerChain().step(Picks(2, token)),
                  SamplerChain().top_k(5).step(Picks(2, token))):
        with pytest.raises(InvalidArgument, match=r"is no token id|chose no token"):
            model.generate([5, 6], max_tokens=9, sampler=chain)
    check_idle(model)


@pytest.mark.parametrize("token", [np.int64(7), np.int32(7), np.uint8(7), 7])
def test_numbers_of_numpy(load: Load, token: Any) -> None:
    chain = SamplerChain().step(Picks(0, token))
    result = load(**DETERMINISTIC).generate([5, 6], max_tokens=1, sampler=chain)
    assert result.tokens == [7] and type(result.tokens[0]) is int


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_candidates(load: Load, broken: Any) -> None:
    """Candidates are broken before native steps of the chain, before a step in NumPy, and among a
    device's best candidates."""
    model = load(**DETERMINISTIC)
    for chain in (SamplerChain().step(Acts(1, broken)).greedy(),
                  SamplerChain().step(Acts(1, broken)).constraint(lambda: Constraining(99)).dist(1),
                  SamplerChain().top_k(20).step(Acts(1, broken)).dist(1)):
        with pytest.raises(InvalidArgument, match="step 'acts' left"):
            model.generate([5, 6], max_tokens=9, sampler=chain)
    check_idle(model)


def test_what_a_step_may_leave(load: Load) -> None:
    """Valid candidates: some ruled out by -inf, every second one, views."""
    model = load(**DETERMINISTIC)

    def bans(candidates: Any) -> None:
        candidates.logits[candidates.ids != 9] = -np.inf

    def halves(candidates: Any) -> None:
        candidates.ids, candidates.logits = candidates.ids[1::2], candidates.logits[1::2]
    for act, allowed in ((bans, {9}), (halves, set(range(1, N_VOCAB, 2)))):
        for ends in (SamplerChain.greedy, SamplerChain.dist, SamplerChain.mirostat):
            chain = ends(SamplerChain().step(Acts(0, act)))
            assert set(model.generate([5], max_tokens=1, sampler=chain).tokens) <= allowed


@pytest.mark.parametrize(("act", "error"), ANSWERS.values(), ids=ANSWERS)
def test_constraints(load: Load, act: Any, error: type[Exception]) -> None:
    model = load(**DETERMINISTIC)
    chain = SamplerChain().constraint(lambda: Constraining(2, act))
    with pytest.raises(error, match=r"mask\(\)" if error is InvalidArgument else None):
        model.generate([5, 6], max_tokens=9, sampler=chain)
    check_idle(model)


def test_a_constraint_that_cannot_begin(model: Model) -> None:
    """The error comes from the call, before anything runs."""
    for make, error in ((lambda: None, InvalidArgument), (lambda: raises()(None), Trouble)):
        with pytest.raises(error):
            model.generate([5], max_tokens=9, sampler=SamplerChain().constraint(make))
    check_idle(model)


@pytest.mark.parametrize("prompt", [
    [5, N_VOCAB], [-1], [5, 2.0], [True], [5, True], [None],
    [2**31], [2**70], [np.bool_(True), 5], np.array([[5]]), np.array([5.0])], ids=repr)
def test_prompts(load: Load, prompt: Any) -> None:
    model = load(**DETERMINISTIC)
    for call in (model.generate, model.logits, model.save_state):
        with pytest.raises(InvalidArgument):
            call(prompt)
    check_idle(model)


BOOKS: Sequence[tuple[type, str]] = ((CachedSequence, "attach"), (CachedSequence, "reserve"),
                                     (CachedSequence, "commit"), (Batch, "place"))


@pytest.mark.parametrize(("owner", "name"), BOOKS, ids=[name for _, name in BOOKS])
def test_bookkeeping_that_fails_for_one(model: Model, monkeypatch: pytest.MonkeyPatch,
                                        owner: Any, name: str) -> None:
    """Half-done bookkeeping is begun again, without the guilty request."""
    expected = [model.generate(p, **GREEDY) for p in PROMPTS[1:]]
    original, guilty = getattr(owner, name), [13, 14, 15]

    def fails(self: Any, *args: Any) -> Any:
        owners = [r.cached for r in model.engine._admission.running
                  if r.request.tokens[:3] == guilty]
        if self in owners or any(isinstance(a, list) and a[:3] == guilty for a in args):
            raise Trouble("books")
        return original(self, *args)
    streams = [model.stream(p, **GREEDY) for p in PROMPTS[1:]]
    for stream in streams:
        next(stream)
    monkeypatch.setattr(owner, name, fails)
    bad = model.stream(guilty, **GREEDY)
    for stream, wanted in zip(streams, expected, strict=True):
        list(stream)
        assert stream.result.tokens == wanted.tokens
    with pytest.raises(Trouble):
        list(bad)
    monkeypatch.undo()
    check_idle(model)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exits_in_the_main_thread(model: Model, error: type[BaseException]) -> None:
    """An exit raised by a step can't be told from a signal handler's: the caller gets it, others go
    on."""
    expected = model.generate([7] * 40, **GREEDY)
    other = model.stream([7] * 40, **GREEDY)
    next(other)
    chain = SamplerChain().step(Acts(4, raises(error()))).greedy()
    with pytest.raises(error):
        model.generate([5, 6], max_tokens=9, sampler=chain)
    list(other)
    assert other.result.tokens == expected.tokens
    check_idle(model)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exits_in_other_threads(load: Load, error: type[BaseException]) -> None:
    """In other threads an exit is the step's own error, whichever thread runs the step."""
    model = load(**DETERMINISTIC)
    expected = model.generate([7] * 40, **GREEDY)
    chain = SamplerChain().step(Acts(4, raises(error()))).greedy()
    guilty = model.stream([5, 6], max_tokens=9, sampler=chain)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(model.generate, [7] * 40, **GREEDY).result().tokens == expected.tokens
    with pytest.raises(error):
        list(guilty)
    check_idle(model)


@pytest.mark.parametrize("wrong", [{"max_tokens": 2.5}, {"max_tokens": "3"}, {"max_tokens": True},
                                   {"n_logprobs": 2.5}, {"n_logprobs": -1}])
def test_counts_are_checked_before_a_step(load: Load, wrong: dict[str, Any]) -> None:
    model = load(**DETERMINISTIC)
    with pytest.raises(InvalidArgument, match=r"max_tokens|logprobs"):
        Request([5], sampler=SamplerChain().greedy().build(),
                decoder=StreamDecoder(model.tokenizer), **wrong)
