"""A constraint at work in a sampler: the step that asks it, and looks ahead along a draft."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from unladen.errors import InvalidArgument
from unladen.sample.base import BadLogits, Candidates, State, Step
from unladen.sample.constrain.base import Constrains, Mask, n_words

log = logging.getLogger("unladen")


class RunningConstraint(Step):
    """The step ``constraint`` of one sequence. ``slot``: its number among those of the chain.

    The caller that runs a chain calls :meth:`ask` first, then the steps, then :meth:`accept`.
    """

    name: ClassVar[str] = "constraint"
    opcode: ClassVar[str | None] = "constraint"

    def __init__(self, constraint: Constrains, slot: int) -> None:
        self.mask: Mask = np.zeros(0, np.uint32)
        self._constraint = constraint
        self._slot = slot
        # For each of the next tokens, as long as guesses are right: its mask, and the guess.
        self._ahead: deque[tuple[Mask, int]] = deque()

    def ask(self, n_vocab: int) -> Mask:
        """Make :attr:`mask` that of the next token, of a vocabulary of ``n_vocab``, and return
        it."""
        if self._ahead and len(self._ahead[0][0]) == n_words(n_vocab):
            self.mask = self._ahead[0][0]
        else:
            self.mask = self._asked(n_vocab)
        return self.mask

    def accept(self, token: int) -> None:
        """``token`` comes next."""
        if self._ahead and self._ahead.popleft()[1] != token:
            self._ahead.clear()
        self._constraint.accept(token)

    def n_allowed(self, draft: Sequence[int], n_vocab: int) -> int:
        """How many tokens of ``draft`` from the first one on are allowed one after another. The
        constraint is as before; the masks are kept for :meth:`ask`. Raises what ``rollback`` does:
        what ``mask`` and ``accept`` raise counts when that token is really due."""
        self._ahead.clear()
        n = n_accepted = 0
        try:
            while n < len(draft):
                mask, token = self._asked(n_vocab), draft[n]
                self._ahead.append((mask, token))
                if not mask[token // 32] >> (token % 32) & 1:
                    break
                n += 1
                if n < len(draft):
                    self._constraint.accept(token)
                    n_accepted += 1
        except Exception as error:  # noqa: BLE001 - a caller's code raises anything
            log.debug("a draft ends after %d tokens, where a constraint raised %s: %s", n,
                      type(error).__name__, error)
        finally:
            if n_accepted:
                self._constraint.rollback(n_accepted)
        return n

    def apply(self, candidates: Candidates, state: State) -> None:
        """Keep the candidates whose bit is set."""
        ids = candidates.ids
        candidates.keep((self.mask[ids >> 5] >> (ids & 31).astype(np.uint32) & 1).astype(bool))
        if not len(candidates.ids):
            raise BadLogits("the constraint allows none of the candidates")

    def packed(self) -> tuple[float, ...]:
        """(slot,)."""
        return (self._slot,)

    def _asked(self, n_vocab: int) -> Mask:
        mask = np.zeros(n_words(n_vocab), np.uint32)
        returned: object = self._constraint.mask(mask)  # type: ignore[func-returns-value]
        if returned is not None:
            raise InvalidArgument(
                f"{type(self._constraint).__name__}.mask() returned a {type(returned).__name__}",
                hint="mask(out) sets bits in out and returns None: out[:] = mask_of(allowed)")
        return mask
