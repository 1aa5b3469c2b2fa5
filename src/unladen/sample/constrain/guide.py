"""A model's vocabulary as llguidance knows it, and constraints for languages over it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unladen.errors import ConstraintFailed, InvalidArgument, UnladenError
from unladen.sample.constrain.base import Constrains, Make, Mask, n_words
from unladen.sample.constrain.language import Grammars, Language, split
from unladen.sample.constrain.states import LOST, State, States, states_of
from unladen.sample.constrain.ways import MAX_STEPS, Way, Ways

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

Encode = Callable[[bytes], Sequence[int]]
"""The ids of UTF-8 text that continues another text, without special tokens."""

MAX_LEXER_STATES = 50_000
"""States of a grammar's lexer that are kept, 1 to 2 kB each: a hostile grammar takes 100 MB."""
KEPT = 32
"""Compiled grammars that are kept for the next request with the same one."""
MASK_BYTES = 1 << 21
"""Bytes of the masks that are kept for the states of one grammar, the latest 110 at 150,000 tokens.
"""
_UNUSUAL = r"\x00-\x1F\x7F\u{80}-\u{A0}\u{2000}-\u{206F}"
"""Control characters, and the white space and marks that grammars leave out of lines."""
SLICES = (r"[\x20\x0A\x0D\x09]+", r"[A-Za-z_][0-9A-Za-z_]*",
          rf'[^0-9"\\{_UNUSUAL}]{{1,10}}', rf'[^"\\{_UNUSUAL}]{{1,10}}',
          r'[^"\\\x00-\x1F\x7F]{1,30}', r'[^"\\\x00-\x1F\x7F]+')
"""Expressions for tokens that a mask takes together where a text may go on with all of them. The
first that fits a token counts. llguidance's own suit JSON; these suit names, lines and words as
well."""


class Guide:
    """A vocabulary. :attr:`tokens`: the bytes of each by id; ``special_ids``: those that text can't
    produce; ``eog_ids``: those that end a text. :attr:`ends` are these, or one beyond the
    vocabulary, and ``encode`` turns text into ids.

    Making one holds the GIL for about half a second at 150,000 tokens. Threads may share it. Raises
    :class:`UnladenError` where llguidance isn't installed.
    """

    def __init__(self, tokens: Sequence[bytes], special_ids: Sequence[int],
                 eog_ids: Sequence[int], encode: Encode) -> None:
        try:
            import llguidance
        except ImportError as error:
            raise UnladenError(f"constrained output needs llguidance: {error}",
                               hint="pip install llguidance; there is no wheel for every "
                                    "platform, and building it takes a Rust compiler") from None
        self._special = {tokens[i].decode(errors="replace"): i for i in special_ids}
        known = [*tokens]
        if not eog_ids:  # a token beyond the vocabulary stands for the end of the text
            eog_ids = [len(known)]
            known.append(b"<end>")
        self.ends = tuple(eog_ids)
        self._special_ids = frozenset([*special_ids, *eog_ids])
        self.tokens, self._encode = tokens, encode
        self.ways = Ways(known, self._special_ids, self.ends)
        self._tokenizer: LLTokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Vocabulary(
                known, sorted(self._special_ids), self.ends, encode)),
            eos_token=[*self.ends], slices=[*SLICES])
        self._limits: LLParserLimits = llguidance.LLParserLimits(
            max_lexer_states=MAX_LEXER_STATES, verbose_errors=False)
        self._matcher_of = llguidance.LLMatcher
        self._compiled: dict[str, Compiled] = {}  # the one that was used last comes last

    def compiled(self, language: Language) -> Make:
        """Returns a new constraint for each sequence whose answer is to be of ``language``. Raises
        :class:`InvalidArgument` where that can't be compiled."""
        grammars = Grammars(language, self._special)
        text = grammars.text()
        made = self._compiled.pop(text, None)  # and put back as the latest
        if made is None:
            matcher = self._made(text)
            if matcher.is_error():
                raise self._blamed(grammars, _reason(matcher))
            made = Compiled(self, matcher, [self.ids_of(text) for text in dict.fromkeys(
                end for part in grammars.parts for end in part.ways_on) if text],
                language, states_of(language, self._special))
        self._compiled[text] = made
        _keep_latest(self._compiled, KEPT)
        return made

    def _made(self, text: str) -> LLMatcher:
        return self._matcher_of(self._tokenizer, text, log_level=0, limits=self._limits)

    def _blamed(self, grammars: Grammars, reason: str) -> InvalidArgument:
        """The error of the smallest part that can't be compiled, or else of the whole."""
        alone = sorted((Grammars(part, self._special) for part in grammars.parts),
                       key=lambda each: len(each.parts))
        for each in alone:
            matcher = self._made(each.text())
            if matcher.is_error():
                return each.parts[0].blamed(_reason(matcher))
        return grammars.parts[0].blamed(reason)

    def ids_of(self, text: str) -> list[int]:
        """The tokens of ``text``, which continues another text. Names of special tokens in it
        become these tokens."""
        found: list[int] = []
        for piece in split(text, self._special):
            special = self._special.get(piece)
            found += [special] if special is not None else self._encode(piece.encode())
        return found

    def text_of(self, token: int) -> bytes | None:
        """The bytes that ``token`` adds to a text; None for special tokens."""
        return None if token in self._special_ids else self.tokens[token]

    @property
    def n_mask_words(self) -> int:
        """Words of a mask that llguidance fills."""
        return n_words(self._tokenizer.vocab_size)


class _Vocabulary:
    """What llguidance asks a tokenizer for."""

    def __init__(self, tokens: Sequence[bytes], special_ids: Sequence[int], ends: Sequence[int],
                 encode: Encode) -> None:
        self.tokens, self.special_token_ids = tokens, special_ids
        self.eos_token_id, self.bos_token_id = ends[0], None
        self._encode = encode

    def __call__(self, text: bytes) -> Sequence[int]:
        try:
            return self._encode(text)
        except InvalidArgument:  # no token for such text: nothing is known to follow
            return []


class Compiled:
    """A compiled grammar: each call returns a new constraint. ``closings``: tokens that end a part
    of the text which could go on for ever. ``must_be_whole``, ``is_hurried``: as ``language`` has
    them. ``states``: its states, if they are known; :attr:`masks`: the latest masks by states."""

    def __init__(self, guide: Guide, matcher: LLMatcher, closings: Sequence[Sequence[int]],
                 language: Language, states: States | None) -> None:
        self.guide, self.closings = guide, closings
        self.must_be_whole, self.is_hurried = language.must_be_whole, language.is_hurried
        self.states = states
        self.masks: dict[State, Mask] = {}  # the one that was used last comes last
        self._matcher = matcher
        self._lock = threading.Lock()
        self._way: Way | None = None
        self._is_looked_for = self._is_short = False

    def __call__(self) -> Guided:
        """A new constraint."""
        return Guided(self, self._matcher.deep_copy())

    def way(self, n_most: int) -> Way | None:
        """A way from the beginning to the end, which is made as short as possible where it has more
        than ``n_most`` tokens. None: none was found, or the text breaks off."""
        if not self.is_hurried:
            return None
        with self._lock:
            ways = self.guide.ways
            if not self._is_looked_for:
                self._way = ways.out_of(self._matcher, MAX_STEPS, self.closings)
                self._is_looked_for = True
            if self._way is not None and len(self._way) > n_most and not self._is_short:
                self._way = ways.shorter(self._matcher, self._way, self.closings)
                self._is_short = True
            return self._way


class Guided(Constrains):
    """A constraint that llguidance computes. Its mask is made without the GIL."""

    def __init__(self, compiled: Compiled, matcher: LLMatcher) -> None:
        self._compiled, self._guide, self._matcher = compiled, compiled.guide, matcher
        self._scratch: Mask | None = None
        self._n_accepted = self._n_after_end = 0
        # The state before each accepted token, and the latest; always LOST without states.
        self._states: list[State] = [compiled.states.begin if compiled.states else LOST]

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return self._guide.ends

    @property
    def must_be_whole(self) -> bool:
        """Whether a text that breaks off is of no use."""
        return self._compiled.must_be_whole

    def instead_of_end(self) -> Sequence[int]:
        """See :meth:`Foresees.instead_of_end`: a grammar says where a text may end."""
        return ()

    def mask(self, out: Mask) -> None:
        """See :meth:`Constrains.mask`. Raises :class:`ConstraintFailed`."""
        state, kept = self._states[-1], self._compiled.masks
        if state != LOST and (mask := kept.pop(state, None)) is not None:  # put back as the latest
            kept[state] = mask
            out[:len(mask)] = mask[:len(out)]
            return
        n = self._guide.n_mask_words
        words = out
        if len(out) != n or not out.flags.c_contiguous:
            if self._scratch is None:
                self._scratch = np.zeros(n, np.uint32)
            words = self._scratch
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self._check()
        if words is not out:
            n = min(n, len(out))
            out[:n] = words[:n]
        if state != LOST:
            kept[state] = words.copy()
            _keep_latest(kept, MASK_BYTES // words.nbytes)

    def accept(self, token: int) -> None:
        """See :meth:`Constrains.accept`. Raises :class:`ConstraintFailed` for a token that isn't
        allowed."""
        if self._n_after_end or (token in self._guide.ends and self._matcher.is_stopped()):
            self._n_after_end += 1
            return
        self._n_accepted += 1
        if not self._matcher.consume_token(token):
            self._check()
        if self._compiled.states is not None:
            self._states.append(self._compiled.states.after(
                self._states[-1], token, self._guide.text_of(token)))

    def rollback(self, n: int) -> None:
        """See :meth:`Constrains.rollback`."""
        n_after = min(n, self._n_after_end)
        self._n_after_end -= n_after
        self._n_accepted -= n - n_after
        if n > n_after and not self._matcher.rollback(n - n_after):
            self._check()
        if self._compiled.states is not None:
            del self._states[self._n_accepted + 1:]

    def forced(self) -> list[int]:
        """The tokens that come next in any case, as the tokenizer would cut them. One that ends the
        text is the last."""
        if self._n_after_end or self._matcher.is_error():
            return []
        if self._matcher.is_stopped():
            return [self._guide.ends[0]]
        tokens = self._matcher.compute_ff_tokens()
        # A tokenizer that changes the text before it cuts it names tokens of another text.
        return tokens[:self._matcher.validate_tokens(tokens)] if tokens else []

    def n_valid(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` from the first one on are allowed one after another."""
        if self._n_after_end or self._matcher.is_error():
            return 0
        return self._matcher.validate_tokens(list(tokens))

    def way_in(self, n_most: int) -> Sequence[int] | None:
        """See :meth:`Foresees.way_in`."""
        return self.way_out(n_most) if self._n_accepted else self._compiled.way(n_most)

    def way_out(self, n_most: int, first: int | None = None, known: Sequence[int] = (),
                banned: frozenset[int] = frozenset()) -> Sequence[int] | None:
        """See :meth:`Foresees.way_out`."""
        if self._n_after_end or first in self._guide.ends:
            return []
        if not self._compiled.is_hurried:
            return None
        ways, matcher = self._guide.ways, self._matcher
        if first is not None:
            found = ways.after(matcher, n_most, first, known)
            if found is not None:
                return found
            matcher = matcher.deep_copy()
            matcher.consume_token(first)
            found = ways.around(matcher.deep_copy(), n_most, known, self._compiled.closings,
                                banned)
            if found is not None:
                return found
        return ways.out_of(matcher, n_most, self._compiled.closings, banned)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintFailed(f"the constraint failed: {_reason(self._matcher)}",
                                   hint="simplify the grammar or the schema")


def _reason(matcher: LLMatcher) -> str:
    return " ".join(matcher.get_error().split())


def _keep_latest(kept: dict[Any, Any], n_most: int) -> None:
    """Drop all but the last ``n_most`` of ``kept``. Another thread may drop the same ones."""
    for old in list(itertools.islice(kept, max(0, len(kept) - n_most))):
        kept.pop(old, None)
