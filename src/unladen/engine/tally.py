"""Counts the tokens that an engine computes."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.engine.batcher import Work


class Tally:
    """Tokens since the engine was made: :attr:`n_prefilled` of prompts, also where they are
    computed again, and :attr:`n_written` that were chosen."""

    def __init__(self) -> None:
        self.n_prefilled = self.n_written = 0

    def begin(self, work: Sequence[Work]) -> int:
        """Count the prompts in ``work``, whose step has ended, before its requests get their
        tokens. Returns how many tokens these requests have, for :meth:`end`."""
        n_tokens = 0
        for each in work:
            request = each.request
            n_tokens += len(request.tokens)
            decoded = int(len(request.tokens) > request.n_prompt)
            self.n_prefilled += each.n_tokens - len(each.draft) - decoded
        return n_tokens

    def end(self, work: Sequence[Work], n_tokens: int) -> None:
        """Count the tokens that the requests of ``work`` got, which had ``n_tokens`` before."""
        self.n_written += sum(len(each.request.tokens) for each in work) - n_tokens
