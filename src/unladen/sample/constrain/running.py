"""The step that runs a constraint in a sampler, also ahead along a draft's tokens."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from unladen.errors import InvalidArgument
from unladen.sample.base import BadLogits, Candidates, State, Step
from unladen.sample.constrain.base import Constrains, Mask, foresees, n_words

log = logging.getLogger("unladen")

ROOM = 64
"""Tokens left beyond those of a way from which on a token is taken after which no way is known, in
a text that need not be whole: one may be found later."""
_NO_TOKEN = -1
"""Stands after a draft, where no token is guessed."""


class RunningConstraint(Step):
    """The step ``constraint`` of one sequence. ``slot``: its number among those of the chain.
    :attr:`is_cut`: the text comes to an end only because it has to. :attr:`banned`: tokens that
    another step of the chain never lets pass; those that end the text are let pass all the same.
    :attr:`is_forcible`: whether the chain takes tokens of the constraint's in place of chosen ones.

    The caller that runs a chain calls :meth:`ask` first, then the steps, then :meth:`accept`. Where
    it also says how many tokens may come, with :meth:`begin` and :meth:`hurry`, a text that can end
    in time does: a way to its end is always known, and a token that leads where none is known that
    is short enough isn't taken. The way is taken instead.
    """

    name: ClassVar[str] = "constraint"
    opcode: ClassVar[str | None] = "constraint"

    def __init__(self, constraint: Constrains, slot: int) -> None:
        self.mask: Mask = np.zeros(0, np.uint32)
        self.banned: frozenset[int] = frozenset()
        self.is_cut = self.is_forcible = False
        self._constraint = constraint
        self._foreseeing = foresees(constraint)
        self._slot = slot
        # Tokens that come next in any case; None: the constraint wasn't asked yet.
        self._forced: deque[int] | None = None
        # How many tokens may come, and a way to the text's end; None: none is known, and is looked
        # for again when ``_look_at`` tokens may come. The way after a token that was checked.
        self._n_left = self._look_at = 0
        self._way: Sequence[int] | None = None
        self._checked: tuple[int, Sequence[int]] | None = None
        # Masks that were made ahead, each with the token guessed after it. They hold as long as
        # the guesses are right.
        self._ahead: deque[tuple[Mask, int]] = deque()

    def ask(self, n_vocab: int) -> Mask:
        """Set :attr:`mask` to the mask of the next token, for ``n_vocab`` tokens, and return it."""
        if self._ahead and len(self._ahead[0][0]) == n_words(n_vocab):
            self.mask = self._ahead[0][0]
        else:
            self.mask = self._asked(n_vocab)
        return self.mask

    def accept(self, token: int) -> None:
        """Tell the constraint that ``token`` comes next."""
        if self._ahead and self._ahead.popleft()[1] != token:
            self._ahead.clear()
        if not self._forced or self._forced.popleft() != token or not self._forced:
            self._forced = None
        if self._way is not None:
            self._way = (self._checked[1] if self._checked and self._checked[0] == token else
                         self._way_after(token))
        self._checked = None
        self._constraint.accept(token)

    def forced(self) -> int | None:
        """The next token, where no other can come as the constraint knows."""
        if self._foreseeing is None:
            return None
        if self._forced is None:
            self._forced = deque(self._foreseeing.forced())
        if not self._forced or self.is_banned(self._forced[0]):
            return None  # whether another may come, the mask tells
        return self.in_time(self._forced[0])

    def is_banned(self, token: int) -> bool:
        """Whether ``token`` may not come, also where nothing else may."""
        return token in self.banned and not (
            self._foreseeing is not None and token in self._foreseeing.ends)

    @property
    def _must_end(self) -> bool:
        """Whether no token is taken after which no way is known, however many may still come. Where
        tokens are banned there may be ways that aren't found."""
        return (self._foreseeing is not None and self._foreseeing.must_be_whole
                and not self.banned)

    def begin(self, n_left: int) -> int | None:
        """At most ``n_left`` tokens may come in all. Called before the first one. Returns how many
        the shortest text takes that was found, if it takes more; None: a text is in time, or need
        not be whole, or none was found."""
        if self._foreseeing is None:
            return None
        way = self._foreseeing.way_in(n_left + 1)
        if way is not None and self.banned.isdisjoint(way[:-1]):
            if len(way) <= n_left + 1:
                self._way = way
            elif self._foreseeing.must_be_whole:
                return len(way) - 1
        self._look_at = n_left
        self.hurry(n_left)
        return None

    def hurry(self, n_left: int) -> None:
        """At most ``n_left`` tokens may come. Called after each token, so that a text comes to its
        end in the same way however many tokens are computed together."""
        self._n_left = n_left
        if self._way is None and self._foreseeing is not None and n_left <= self._look_at:
            self._way = self._foreseeing.way_out(n_left + 1, banned=self.banned)
            self._look_at = n_left // 2

    def in_time(self, token: int) -> int:
        """``token``, which is allowed next, if the text can still come to its end after it. Else
        the first token of the way to the end, the others of which are then :meth:`forced`."""
        if not self._way or (self._checked and self._checked[0] == token):
            return token
        after = self._way_after(token)
        if after is None and not self._must_end and self._n_left > len(self._way) + ROOM:
            return token
        if after is None:
            self._forced, self.is_cut = deque(self._way), True
            token, after = self._way[0], self._way[1:]
        self._checked = token, after
        return token

    def _way_after(self, token: int) -> Sequence[int] | None:
        """A way after ``token`` with the end behind the last token that may come, or before it."""
        assert self._foreseeing is not None and self._way is not None
        return self._foreseeing.way_out(self._n_left, token, self._way, self.banned)

    def chosen(self, token: int) -> int:
        """The token that comes where the chain chose ``token``, which the mask lets pass."""
        if self._foreseeing is not None and token in self._foreseeing.ends:
            instead = self._instead_of_end()
            if instead:
                self._forced = deque(instead)
                token = instead[0]
        return self.in_time(token)

    def _instead_of_end(self) -> Sequence[int]:
        if self._foreseeing is None or not self.is_forcible:
            return ()
        instead = self._foreseeing.instead_of_end()
        return () if any(map(self.is_banned, instead)) else instead

    @property
    def works_ahead(self) -> bool:
        """Whether :meth:`look_ahead` may run in another thread."""
        return self._foreseeing is not None

    def look_ahead(self, draft: Sequence[int], n_vocab: int) -> None:
        """Make the masks of the next token, and of those after each token of ``draft``, which are
        allowed. What the constraint raises counts when that token is due."""
        self._ahead.clear()
        self._walk([*draft, _NO_TOKEN], n_vocab)

    def n_allowed(self, draft: Sequence[int], n_vocab: int) -> int:
        """How many tokens of ``draft``, from the first one on, are allowed one after another. The
        constraint is rolled back; the masks are kept for :meth:`ask`. Only ``rollback`` may raise
        an exception here. One of ``mask`` or ``accept`` ends the count, and is raised again if the
        sequence gets to that token."""
        self._ahead.clear()
        if self._foreseeing is not None:  # masks are made later, by look_ahead()
            return self._foreseeing.n_valid(draft)
        return self._walk(draft, n_vocab)

    def _walk(self, tokens: Sequence[int], n_vocab: int) -> int:
        n = n_accepted = 0
        try:
            while n < len(tokens):
                mask, token = self._asked(n_vocab), tokens[n]
                self._ahead.append((mask, token))
                if token < 0 or not mask[token // 32] >> (token % 32) & 1:
                    break
                n += 1
                if n < len(tokens):
                    self._constraint.accept(token)
                    n_accepted += 1
        except Exception as error:  # noqa: BLE001 - a caller's constraint may raise anything
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
        if self._foreseeing is not None and self._instead_of_end():
            for end in self._foreseeing.ends:
                if end // 32 < len(mask):
                    mask[end // 32] |= np.uint32(1 << end % 32)
        return mask
