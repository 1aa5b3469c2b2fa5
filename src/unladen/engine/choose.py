"""Chooses each request's next token from what a step computed."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.engine.blame import charge
from unladen.engine.flight import Results
from unladen.engine.request import Logits, Request
from unladen.sample import BadLogits, Sampler, sample_rows
from unladen.sample.base import token_id

Sampled = Sequence[tuple[Request, Sampler, int]]
"""Requests, their samplers, and the numbers of their rows in the results."""


def choose(sampled: Sampled, op: str, results: Results, n_vocab: int, context_size: int) -> None:
    """Give each request its next token, or the error that choosing the token raised.

    * ``sampled``: the requests.
    * ``op``, ``results``: what the step computed; see :class:`~unladen.engine.flight.Flight`.
    * ``n_vocab``: all ids are below it. Columns of logits beyond that belong to no token and are
      ignored.
    * ``context_size``: tokens at most in one sequence.
    """
    if op == "argmax":
        (tokens,) = results
        for request, sampler, row in sampled:
            try:
                token = _greedy(sampler, int(tokens[row]), n_vocab)
                request.take_token(token, None, context_size)
            except BaseException as error:  # noqa: BLE001  # charge() ends the request
                charge(request, error)
    elif op == "top_k":
        ids, best = results
        for request, sampler, row in sampled:
            try:
                token = sampler.sample_best(ids[row], best[row], n_vocab)
                request.take_token(token, None, context_size)
            except BaseException as error:  # noqa: BLE001  # charge() ends the request
                charge(request, error)
    else:
        logits = results[0] if results[0].shape[1] <= n_vocab else results[0][:, :n_vocab]
        native = [each for each in sampled if each[0].samples_natively]
        # Rows that don't follow one another would have to be copied: sampling one by one is faster.
        together = len(native) > 1 and logits.flags.c_contiguous
        if together:
            _sample_many(native, logits, context_size)
        for request, sampler, row in sampled:
            if not (together and request.samples_natively):
                _sample_one(request, sampler, logits[row], context_size)


def _greedy(sampler: Sampler, token: int, n_vocab: int) -> int:
    if token < 0:
        raise BadLogits("the logits hold NaN or +inf, or are all -inf")
    token = token_id(token, n_vocab, "argmax")
    sampler.accept(token)
    return token


def _sample_one(request: Request, sampler: Sampler, logits: Logits, context_size: int) -> None:
    try:
        token = sampler.sample(logits)
        if not request.samples_natively:  # the caller's own sampler may return anything
            token = token_id(token, len(logits), "the sampler")
        request.take_token(token, logits, context_size)
    except BaseException as error:  # noqa: BLE001  # charge() ends the request
        charge(request, error)


def _sample_many(sampled: Sampled, logits: Logits, context_size: int) -> None:
    rows = [row for _, _, row in sampled]
    wanted = logits if rows == list(range(len(logits))) else logits[rows]
    try:
        tokens = sample_rows(wanted, [sampler for _, sampler, _ in sampled])
    except BadLogits as error:
        for i in error.rows:
            sampled[i][0].fail(error)
        tokens = list(error.tokens)
    except Exception as error:  # noqa: BLE001  # out of memory: some may have drawn
        for request, _, _ in sampled:
            request.fail(error)
        return
    for (request, _, row), token in zip(sampled, tokens, strict=True):
        if request.error is None:
            try:
                request.take_token(token, logits[row], context_size)
            except BaseException as error:  # noqa: BLE001  # charge() ends the request
                charge(request, error)
