"""Ways out: tokens that end a text soon, from where a matcher of llguidance stands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from llguidance import LLMatcher

MAX_STEPS = 16_384
"""Tokens of the longest way from the beginning that is looked for, in a fraction of a second."""
FEW = 256
"""Tokens of the ways that are looked for in every order. One order finds most ways, so that of a
longer one each further order looks for half as much."""
MAX_TRIES = 4_000
"""Steps in which a way is made shorter, about as many as it takes for a schema of 200 fields."""
N_AROUND = 2
"""Tokens before and after a detour that may become one with its own."""
MAX_DETOUR = 24
"""Tokens after which another way from a token on must be back on the known one."""
MAX_PLACES = 8
"""Places of the known way that are tried after each of these tokens, the last ones first."""
LONGEST = 32
"""Bytes of the tokens into which a way is cut."""
N_KNOWN = 16
"""Tokens of a known way that are left out at most where another token comes in their place."""
_CLOSERS, _DIGITS = "}])>", "0123456789"
_LETTERS = "nabcdefghijklmopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_REST = '[{.,;:-/@ \n('
_OTHERS = "!#$%&'*+<=?\\^_`|~\t\r"
ORDERS = (f'{_CLOSERS},"{_DIGITS}{_LETTERS}{_REST}', f'{_CLOSERS}"{_DIGITS}{_LETTERS}{_REST}',
          f'{_CLOSERS}{_DIGITS}{_LETTERS}"{_REST}', f'"@:./-{_DIGITS}{_LETTERS}{_CLOSERS}{_REST}')
"""In which order characters are tried where a text is to end soon: what closes comes first, then
what separates, then what a shortest value is made of. The last order is for texts such as
addresses."""
PATIENCE = 4
"""How often the same choice is made the same way, one time after another, before the next character
is tried: the first might go on for ever, as a zero does in 0.000."""

Way: TypeAlias = list[int]
"""Tokens that end a text. The last one is a token that ends it, and no other one is."""


class Ways:
    """Finds ways. ``tokens``: the bytes of each token by id; ``ends``: the tokens that end a text,
    the first of which ends ways."""

    def __init__(self, tokens: Sequence[bytes], special_ids: Collection[int], ends: Sequence[int]
                 ) -> None:
        self._tokens, self._special, self._ends = tokens, frozenset(special_ids), ends
        self._singles = {chr(token[0]): i for i, token in reversed(list(enumerate(tokens)))
                         if len(token) == 1 and token[0] < 128 and i not in self._special}
        self._ids: dict[bytes, int] = {}

    def out_of(self, matcher: LLMatcher, n_most: int, closings: Sequence[Sequence[int]] = (),
               banned: frozenset[int] = frozenset()) -> Way | None:
        """A way of at most ``n_most`` tokens from where ``matcher`` stands; None: none was found.

        * ``closings``: tokens that end a part of the text which could go on for ever.
        * ``banned``: tokens that a way must not have; it may have those that end the text.
        """
        for i, order in enumerate(ORDERS):
            n = max(n_most >> i, min(n_most, FEW))
            found = self._greedy(matcher.deep_copy(), n, order, closings, banned)
            if found is not None:
                return found
        return None

    def _greedy(self, matcher: LLMatcher, n_most: int, order: str,
                closings: Sequence[Sequence[int]], banned: frozenset[int]) -> Way | None:
        found: Way = []
        patience = _Patience()
        while not matcher.is_error():
            if matcher.is_accepting():
                return [*found, self._ends[0]]
            tokens = self._step(matcher, order, closings, banned, patience)
            found += tokens
            if not tokens or len(found) >= n_most or not matcher.consume_tokens([*tokens]):
                return None
        return None

    def _step(self, matcher: LLMatcher, order: str, closings: Sequence[Sequence[int]],
              banned: frozenset[int], patience: _Patience) -> Sequence[int]:
        """Tokens that come nearer to the end of the text; [] where there are none."""
        tokens: Sequence[int] = matcher.compute_ff_tokens()
        if tokens and banned.isdisjoint(tokens):
            return tokens
        mask = matcher.compute_bitmask()
        if closings and self._is_free(mask):
            for closing in closings:
                if (banned.isdisjoint(closing)
                        and matcher.validate_tokens([*closing]) == len(closing)):
                    return closing
        return self._nearest(mask, order, banned, patience.turn(mask))

    def _is_free(self, mask: bytes) -> bool:
        """Whether ``mask`` allows what any text may have, also a line break, as no string in quotes
        does."""
        return all(_is_set(mask, self._singles.get(c)) for c in 'az "\n')

    def _is_string(self, mask: bytes) -> bool:
        return all(_is_set(mask, self._singles.get(c)) for c in 'az "')

    def _nearest(self, mask: bytes, order: str, banned: frozenset[int], turn: int
                 ) -> Sequence[int]:
        """The token of one character that ``mask`` allows and that comes first in ``order``, else
        any that is allowed. A character that closes a string comes first of all in a string.
        ``turn``: how many characters are passed over; after the last one comes the first."""
        order = ('"' if self._is_string(mask) else "") + order + _OTHERS
        if turn == 0:
            for c in order:
                token = self._singles.get(c)
                if token is not None and _is_set(mask, token) and token not in banned:
                    return [token]
        found = dict.fromkeys(token for c in order if (token := self._singles.get(c)) is not None
                              and _is_set(mask, token) and token not in banned)
        if found:
            return [[*found][turn % len(found)]]
        for i in np.flatnonzero(np.frombuffer(mask, np.uint8)).tolist():
            for token in range(8 * i, 8 * i + 8):
                if _is_set(mask, token) and token not in banned:
                    return [token]
        return []

    def after(self, matcher: LLMatcher, n_most: int, first: int, known: Sequence[int]
              ) -> Way | None:
        """A way of at most ``n_most`` tokens after the token ``first``, made of ``known``, a way
        from before that token. None: it has none in it."""
        if known and known[0] == first:
            return [*known[1:]] if len(known) - 1 <= n_most else None
        for n in range(min(len(known), N_KNOWN)):
            rest = [*known[n:]]
            if len(rest) <= n_most and matcher.validate_tokens([first, *rest]) == 1 + len(rest):
                return rest
        return None

    def around(self, matcher: LLMatcher, n_most: int, known: Sequence[int],
               closings: Sequence[Sequence[int]], banned: frozenset[int]) -> Way | None:
        """A way of at most ``n_most`` tokens from where ``matcher`` stands, which is soon back on
        ``known``, a way from a token earlier. None: none was found. Moves ``matcher``."""
        path, patience = Way(), _Patience()
        while len(path) < MAX_DETOUR and not matcher.is_accepting():
            tokens = self._step(matcher, ORDERS[0], closings, banned, patience)
            if not tokens or not matcher.consume_tokens([*tokens]):
                return None
            path += tokens
            for n in range(min(len(known), N_KNOWN)):
                rest = [*known[n:]]
                if (len(path) + len(rest) <= n_most
                        and matcher.validate_tokens(rest) == len(rest)):
                    return path + rest
        return None

    def shorter(self, matcher: LLMatcher, way: Sequence[int],
                closings: Sequence[Sequence[int]] = ()) -> Way:
        """``way``, or one with fewer tokens. From the end to the beginning, another character is
        tried at each place, until the text is back on the way; then the text is cut into as few
        tokens as possible."""
        known, n_tries = [*way], 0
        walker = matcher.deep_copy()
        if not walker.consume_tokens(known[:-1]):
            return known
        for at in range(len(known) - 2, -1, -1):
            walker.rollback(1)
            if n_tries >= MAX_TRIES or walker.compute_ff_tokens():
                continue
            mask = walker.compute_bitmask()
            if self._tokens[known[at]][:1] in b"}]),>" or self._is_string(mask):
                continue
            for c in ORDERS[0]:
                token = self._singles.get(c)
                if token is None or token == known[at] or not _is_set(mask, token):
                    continue
                found, n = self._detour(walker.deep_copy(), token, known[max(0, at - N_AROUND):at],
                                        known[at:], closings)
                n_tries += n
                known[at:] = found
        return self._fewest(matcher, known)

    def _detour(self, matcher: LLMatcher, first: int, before: Way, rest: Way,
                closings: Sequence[Sequence[int]]) -> tuple[Way, int]:
        """(``rest``, or a shorter way that begins with ``first``; how many steps were tried).
        ``before``: the tokens before it."""
        path, tokens = list[int](), [first]
        wanted, patience = np.array(rest), _Patience()
        for n in range(1, MAX_DETOUR):
            if not matcher.consume_tokens([*tokens]):
                return rest, n
            path += tokens
            if matcher.is_accepting():
                return self._fewer(before, [*path, rest[-1]], rest, len(rest) - 1), n
            mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
            inside = np.flatnonzero(wanted < 8 * len(mask))
            is_next = inside[mask[wanted[inside] >> 3] >> (wanted[inside] & 7) & 1 != 0]
            for at in is_next[:-MAX_PLACES - 1:-1].tolist():
                if matcher.validate_tokens(rest[at:]) == len(rest) - at:
                    return self._fewer(before, [*path, *rest[at:]], rest, at), n
            tokens = [*self._step(matcher, ORDERS[0], closings, frozenset(), patience)]
            if not tokens:
                return rest, n
        return rest, MAX_DETOUR

    def _fewer(self, before: Way, way: Way, known: Way, at: int) -> Way:
        """``way``, if that takes fewer tokens than ``known``, else ``known``. Both are the same
        from ``known[at]`` on."""
        n_same = len(known) - at
        if at > 4 * (len(way) - n_same) + N_AROUND:
            return way  # there may be too many to cut, and they never become so few
        begin, end = [*before], known[at:at + N_AROUND]
        new, old = (len(self._cut_all([*begin, *each[:len(each) - n_same], *end]))
                    for each in (way, known))
        return way if new < old else known

    def _fewest(self, matcher: LLMatcher, way: Way) -> Way:
        """The text of ``way`` in as few tokens as possible."""
        found = self._cut_all(way)
        is_way = len(found) < len(way) and matcher.validate_tokens(found) == len(found)
        return found if is_way else way

    def _cut_all(self, way: Way) -> Way:
        """``way`` with its text in as few tokens as possible; other tokens stay."""
        found, piece = Way(), list[bytes]()
        for token in way:
            if token < len(self._tokens) and token not in self._special:
                piece.append(self._tokens[token])
                continue
            found += [*self._cut(b"".join(piece)), token]
            piece = []
        return found + self._cut(b"".join(piece))

    def _cut(self, text: bytes) -> Way:
        """``text`` in as few tokens as possible; [] where some of it is in no token."""
        if not self._ids:
            self._ids = {token: i for i, token in reversed(list(enumerate(self._tokens)))
                         if token and i not in self._special}
        never = len(text) + 1
        best: list[tuple[int, int]] = [(0, 0)]  # fewest tokens of each beginning, and the last one
        for end in range(1, len(text) + 1):
            best.append(min(((best[begin][0] + 1, token)
                             for begin in range(max(0, end - LONGEST), end)
                             if (token := self._ids.get(text[begin:end])) is not None),
                            default=(never, 0)))
        found = Way()
        while text and best[-1][0] < never:
            found.append(best[len(text)][1])
            text = text[:-len(self._tokens[found[-1]])]
        return found[::-1]


class _Patience:
    """Counts how often the same choice came in turn, which its mask tells."""

    def __init__(self) -> None:
        self._last = b""
        self._n_in_turn = 0

    def turn(self, mask: bytes) -> int:
        """How many characters to pass over at the choice that ``mask`` allows."""
        self._n_in_turn = self._n_in_turn + 1 if mask == self._last else 0
        self._last = mask
        return self._n_in_turn // PATIENCE


def _is_set(mask: bytes, token: int | None) -> bool:
    return token is not None and token < 8 * len(mask) and bool(mask[token // 8] >> token % 8 & 1)
