"""Drafts of requests with constraints end before the first token that a constraint forbids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unladen.engine.batcher import Work
from unladen.engine.blame import charge
from unladen.engine.request import Request


def with_allowed_drafts(work: Sequence[Work], n_vocab: int) -> list[Work]:
    """``work`` with each draft cut to the tokens that its request's constraints allow, in a
    vocabulary of ``n_vocab``: other tokens couldn't be chosen. An exception of a constraint's
    ``rollback`` ends its request, which then has no draft."""
    return [_cut(item, n_vocab) if item.draft and _is_constrained(item.request) else item
            for item in work]


def _is_constrained(request: Request) -> bool:
    return request.sampler is not None and request.sampler.is_constrained


def _n_allowed(request: Request, draft: Sequence[int], n_vocab: int) -> int:
    assert request.sampler is not None
    # Nothing follows a token that ends the text.
    ends = next((n for n, token in enumerate(draft, 1) if token in request.eog_ids), len(draft))
    try:
        return request.sampler.n_allowed(draft[:ends], n_vocab)
    except BaseException as error:  # noqa: BLE001  # charge() ends the request
        charge(request, error)
        return 0


def _cut(item: Work, n_vocab: int) -> Work:
    n = _n_allowed(item.request, item.draft, n_vocab)
    n_dropped = len(item.draft) - n
    return replace(item, n_tokens=item.n_tokens - n_dropped,
                   n_outputs=item.n_outputs - n_dropped, draft=item.draft[:n])
