"""Takes in what a step computed: tokens are in the cache, and each request gets its next ones."""

from __future__ import annotations

from unladen.engine.batcher import Work
from unladen.engine.blame import blame, charge, keep
from unladen.engine.choose import choose
from unladen.engine.finite import checked, explain
from unladen.engine.flight import Flight, Results
from unladen.engine.masks import MaskMaker, append_forced, hurry
from unladen.runtime.plan import Plan
from unladen.sample import Sampler

Sampled = list[tuple[Work, Sampler, int]]
"""The work of requests that choose a token, their samplers, and the numbers of their rows."""


def collect(flight: Flight, plan: Plan, masks: MaskMaker, n_vocab: int, context_size: int) -> None:
    """Wait for ``flight``, and give its requests their tokens or their logits.

    * ``plan``: the plan that computes the step.
    * ``masks``: makes the masks that the samplers of this step use.
    * ``n_vocab``: all chosen ids are below it.
    * ``context_size``: tokens at most in one sequence.

    Raises :class:`~unladen.engine.blame.Blamed` where the cache of one request fails.
    """
    results = flight.results()
    masks.wait()
    _sample(_commit(flight, results, plan), flight.op, results, plan, n_vocab, context_size)


def _commit(flight: Flight, results: Results, plan: Plan) -> Sampled:
    sampled: Sampled = []
    row = 0
    for item in flight.work:
        request, cached, first = item.request, item.running.cached, row
        row += item.n_outputs
        if request.done:  # the step before ended it after this step had begun
            continue
        try:
            cached.commit(request.tokens, cached.length + item.n_tokens - len(item.draft))
        except Exception as error:  # noqa: BLE001  # blame() names the request
            raise blame(request, error) from None
        request.n_drafted += len(item.draft)
        if request.sampler is None:
            try:
                item.running.take_logits(checked(results[0][first:row], plan))
            except BaseException as error:  # noqa: BLE001  # charge() ends the request
                charge(request, error)
        elif item.n_outputs:
            sampled.append((item, request.sampler, first))
    return sampled


def _sample(sampled: Sampled, op: str, results: Results, plan: Plan, n_vocab: int,
            context_size: int) -> None:
    n = 0
    while sampled:
        choose([(item.request, sampler, first + n) for item, sampler, first in sampled],
               op, results, n_vocab, context_size)
        for item, sampler, _ in sampled:
            if item.request.error is not None:
                explain(item.request, plan)
            if sampler.looks_ahead:
                hurry(item.request, context_size)
        going_on = []
        for each in sampled:
            item, sampler, _ = each
            if _takes_over(item, n):
                going_on.append(each)
            elif sampler.looks_ahead:
                append_forced(item.request, context_size)
        sampled = going_on
        n += 1


def _takes_over(work: Work, n: int) -> bool:
    """Whether the token just chosen is number ``n`` of the draft; if so, its keys and values stay
    in the cache."""
    request, cached = work.request, work.running.cached
    if request.done or n >= len(work.draft) or request.tokens[-1] != work.draft[n]:
        return False
    keep(request, cached.commit, request.tokens, cached.length + 1)
    request.n_accepted += 1
    return True
