"""A request that is being computed, with its sequence in the cache."""

from __future__ import annotations

from unladen._native.engine import Lookup
from unladen.cache import CachedSequence
from unladen.engine.request import Logits, Request


class Running:
    """A ``request`` and the ``cached`` part of its tokens, from its admission until it leaves.

    :attr:`lookup` guesses tokens ahead. :attr:`n_passed_over`: steps since the prompt had a share
    of one, counted while it is the oldest prompt. :attr:`has_left`: the sequence was released or
    handed to a session, and is no longer the request's.
    """

    def __init__(self, request: Request, cached: CachedSequence) -> None:
        self.request = request
        self.cached = cached
        self.lookup = Lookup()
        self.n_passed_over = 0
        self.has_left = False

    @property
    def n_pending(self) -> int:
        """Tokens whose keys and values are not in the cache yet."""
        return len(self.request.tokens) - self.cached.length

    @property
    def is_decoding(self) -> bool:
        """Whether the whole prompt is computed, so that one token at a time follows."""
        request = self.request
        return (len(request.tokens) > request.n_prompt
                and len(request.tokens) - self.cached.length == 1)

    def take_logits(self, rows: Logits) -> None:
        """Keep the logits float32 [n, n_vocab] of the next n tokens, which are in the cache."""
        self.request.logits.append(rows.copy())
        if self.n_pending == 0:
            self.request.finish("length")

    def leave(self) -> None:
        """Give the blocks back."""
        self.has_left = True
        self.cached.release()
