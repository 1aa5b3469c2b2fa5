"""From what a step computed to its requests' tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from unladen.engine.flight import Results
from unladen.engine.request import Logits, Request
from unladen.sample import BadLogits, Sampler, sample_rows

Sampled = Sequence[tuple[Request, Sampler, int]]
"""Requests, what they sample with, and their rows in the results."""


def choose(sampled: Sampled, op: str, results: Results, context_size: int) -> None:
    """Give each request its next token, or the error that came of choosing it. ``results`` are
    those of ``op``: see :class:`~unladen.engine.flight.Flight`."""
    if op == "argmax":
        (tokens,) = results
        for request, sampler, row in sampled:
            _take(request, partial(_greedy, sampler, int(tokens[row])), None, context_size)
    elif op == "top_k":
        ids, best = results
        for request, sampler, row in sampled:
            _take(request, partial(sampler.sample_best, ids[row], best[row]), None, context_size)
    else:
        (logits,) = results
        native = [each for each in sampled if each[0].samples_natively]
        if len(native) > 1:
            _sample_many(native, logits, context_size)
        for request, sampler, row in sampled:
            if len(native) <= 1 or not request.samples_natively:
                _take(request, partial(sampler.sample, logits[row]), logits[row], context_size)


def _greedy(sampler: Sampler, token: int) -> int:
    if token < 0:
        raise BadLogits("the logits hold NaN or +inf, or are all -inf")
    sampler.accept(token)
    return token


def _take(request: Request, sample: Callable[[], int], logits: Logits | None, context_size: int
          ) -> None:
    try:
        token = sample()
    except Exception as error:  # noqa: BLE001  # a step of the caller may raise anything
        request.fail(error)
        return
    request.take_token(token, logits, context_size)


def _sample_many(sampled: Sampled, logits: Logits, context_size: int) -> None:
    rows = [row for _, _, row in sampled]
    wanted = logits if rows == list(range(len(logits))) else logits[rows]
    try:
        tokens = sample_rows(wanted, [sampler for _, sampler, _ in sampled])
    except BadLogits as error:
        for i in error.rows:
            sampled[i][0].fail(error)
        tokens = list(error.tokens)
    for (request, _, row), token in zip(sampled, tokens, strict=True):
        if request.error is None:
            request.take_token(token, logits[row], context_size)
