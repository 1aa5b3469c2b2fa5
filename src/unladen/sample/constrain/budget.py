"""What a model writes before its answer: its end mark is forced where a budget is spent, and where
the model would end the text."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unladen.errors import InvalidArgument
from unladen.sample.constrain.base import Constrains, Make, Mask, foresees
from unladen.sample.constrain.language import Anything, Grammars, Language

if TYPE_CHECKING:
    from unladen.sample.constrain.guide import Guide


@dataclass(frozen=True, eq=False)
class Budgeted(Language):
    """A text whose reasoning ends when a budget is spent. Where the model ends the text inside the
    reasoning, the answer begins, or the text ends.

    * ``end``: the mark that ends the reasoning.
    * ``n_tokens``, ``seconds``: the budget; None: no limit. Seconds count from the first token on.
    * ``whole``: the language of the whole text with its reasoning, such as :class:`After` of the
      same mark. It must let ``closing`` follow any reasoning. None: any text.
    * ``begin``: the mark that begins the reasoning; "": the prompt began it. A text that doesn't
      begin with this mark has no reasoning, and so no budget.
    * ``closing``: what is written when the budget is spent, with ``end`` in it; "": ``end``.
    * ``may_end``: a text may end inside its reasoning. False: where the model ends it there,
      ``closing`` is written instead, and the answer follows.
    """

    end: str
    n_tokens: int | None = None
    seconds: float | None = None
    whole: Language | None = None
    begin: str = ""
    closing: str = ""
    may_end: bool = False

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """The whole text's definition: inside another language there is no budget."""
        return (self.whole or Anything()).define(grammars)

    def make(self, guide: Guide) -> Make:
        """Constraints that count."""
        closing = self.closing or self.end
        if self.end not in closing or not self.end:
            raise InvalidArgument(f"what ends a reasoning must have the mark {self.end!r} in it, "
                                  f"got {closing!r}")
        whole = None if self.whole is None else self.whole.make(guide)
        forced = guide.ids_of(closing)
        return lambda: Budget(None if whole is None else whole(), self, forced, guide.tokens)

    @property
    def must_be_whole(self) -> bool:
        """Whether the whole text must."""
        return self.whole is not None and self.whole.must_be_whole

    @property
    def is_hurried(self) -> bool:
        """Whether the whole text is."""
        return self.whole is not None and self.whole.is_hurried

    def read(self, text: str) -> Any:
        """The value of the whole text."""
        return text if self.whole is None else self.whole.read(text)


class Budget(Constrains):
    """The constraint of :class:`Budgeted` for one sequence. ``inner`` constrains the whole text;
    None: nothing does. ``tokens`` are the bytes of each token, ``forced`` those of the closing."""

    def __init__(self, inner: Constrains | None, wish: Budgeted, forced: Sequence[int],
                 tokens: Sequence[bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self._inner, self._wish, self._closing, self._tokens = inner, wish, forced, tokens
        self._foreseeing = None if inner is None else foresees(inner)
        self._begin, self._end = wish.begin.encode(), wish.end.encode()
        self._clock, self._started = clock, 0.0
        self._accepted: list[int] = []
        # How many tokens were accepted when the reasoning was found to have begun, to be over, or
        # never to begin, and when the budget was spent.
        self._begun_at: int | None = None if self._begin else 0
        self._over_at: int | None = None
        self._spent_at: int | None = None
        self._n_after_end = 0  # tokens from the one on that ended the text inside the reasoning

    def mask(self, out: Mask) -> None:
        """See :meth:`Constrains.mask`."""
        due = self._due()
        if due:
            out[due[0] // 32] |= 1 << due[0] % 32
        elif self._inner is None:
            out[:] = 0xFFFFFFFF
        else:
            self._inner.mask(out)
            if self._may_end_inside():
                for end in self.ends:
                    if end // 32 < len(out):
                        out[end // 32] |= 1 << end % 32

    def accept(self, token: int) -> None:
        """See :meth:`Constrains.accept`."""
        if self._n_after_end or (token in self.ends and self._may_end_inside()):
            self._n_after_end += 1
            return
        if self._inner is not None:
            self._inner.accept(token)
        if not self._accepted:
            self._started = self._clock()
        self._accepted.append(token)
        if self._over_at is None:
            self._look(len(self._accepted))

    def rollback(self, n: int) -> None:
        """See :meth:`Constrains.rollback`."""
        n_after = min(n, self._n_after_end)
        self._n_after_end -= n_after
        n -= n_after
        if not n:
            return
        if self._inner is not None:
            self._inner.rollback(n)
        del self._accepted[-n:]
        left = len(self._accepted)
        if self._begun_at is not None and self._begun_at > left:
            self._begun_at = None
        if self._over_at is not None and self._over_at > left:
            self._over_at = None
        if self._spent_at is not None and self._spent_at > left:
            self._spent_at = None

    @property
    def ends(self) -> Collection[int]:
        """The tokens that end the text."""
        return () if self._foreseeing is None else self._foreseeing.ends

    def forced(self) -> Sequence[int]:
        """The rest of the closing, or what the inner constraint knows."""
        if self._n_after_end:
            return []
        due = self._due()
        if due:
            return due
        forced = [] if self._foreseeing is None else list(self._foreseeing.forced())
        return forced[:self._n_free()]

    def n_valid(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` are allowed, as far as the budget goes."""
        if self._n_after_end:
            return 0
        due = self._due()
        if due:
            return int(bool(tokens) and tokens[0] == due[0])
        tokens = tokens[:self._n_free()]
        if self._inner is None:
            return len(tokens)
        return 0 if self._foreseeing is None else self._foreseeing.n_valid(tokens)

    @property
    def must_be_whole(self) -> bool:
        """Whether a text that breaks off is of no use."""
        return self._foreseeing is not None and self._foreseeing.must_be_whole

    def way_in(self, n_most: int) -> Sequence[int] | None:
        """The inner constraint's."""
        return [] if self._foreseeing is None else self._foreseeing.way_in(n_most)

    def way_out(self, n_most: int, first: int | None = None, known: Sequence[int] = (),
                banned: frozenset[int] = frozenset()) -> Sequence[int] | None:
        """The inner constraint's. A way may end the reasoning before the budget is spent."""
        if self._foreseeing is None or self._n_after_end or (
                first in self.ends and self._may_end_inside()):
            return []
        return self._foreseeing.way_out(n_most, first, known, banned)

    def instead_of_end(self) -> Sequence[int]:
        """The closing, inside the reasoning of a text that must not end there."""
        is_wanted = not self._wish.may_end and self._is_inside()
        return self._closing if is_wanted and self._may_close(self._tail(), -1) else ()

    def _may_end_inside(self) -> bool:
        return self._wish.may_end and self._is_inside()

    def _is_inside(self) -> bool:
        """Whether the text is in its reasoning for sure, and no closing is due."""
        return self._begun_at is not None and self._over_at is None and not self._due()

    def _due(self) -> Sequence[int]:
        """What is left of the closing; nothing before the budget is spent and after the closing."""
        if self._over_at is not None or self._spent_at is None:
            return ()
        return self._closing[len(self._accepted) - self._spent_at:]

    def _n_free(self) -> int | None:
        """Tokens until the budget is spent; None: any number."""
        if self._over_at is not None or self._wish.n_tokens is None:
            return None
        return max(1, self._wish.n_tokens - len(self._accepted))  # 1: the closing has to wait

    def _look(self, n: int) -> None:
        """See what the latest of ``n`` tokens has changed."""
        if self._spent_at is not None:
            if self._accepted[-1] == self._closing[n - self._spent_at - 1]:
                if n - self._spent_at == len(self._closing):
                    self._over_at = n
                return
            self._spent_at = None  # this token's mask was made before the time was over
        tail = self._tail()
        if self._end in tail or not self._may_begin(n):
            self._over_at = n
            return
        wish = self._wish
        n_over = n - wish.n_tokens if wish.n_tokens is not None else -1
        is_late = wish.seconds is not None and self._clock() - self._started >= wish.seconds
        if (n_over >= 0 or is_late) and self._may_close(tail, n_over):
            self._spent_at = n

    def _tail(self) -> bytes:
        """The last bytes, in which a mark that the latest token completes is found."""
        return b"".join(self._tokens[t] for t in self._accepted[-len(self._end) - 1:]
                        if t < len(self._tokens))

    def _may_close(self, tail: bytes, n_over: int) -> bool:
        """Whether the closing can follow here: not within a character, nor where the mark has begun
        already, for which the last tokens before the budget have a little more time."""
        if 0 <= n_over < len(self._end) and any(
                tail.endswith(self._end[:n]) for n in range(1, len(self._end))):
            return False
        if self._foreseeing is not None:
            return self._foreseeing.n_valid(self._closing) == len(self._closing)
        return is_whole(tail)

    def _may_begin(self, n: int) -> bool:
        """Whether the text begins with the mark of a reasoning, or may come to."""
        if not self._begin or n > 2 * len(self._begin) + 8:
            return True  # it was looked at before
        head = b"".join(self._tokens[t] for t in self._accepted if t < len(self._tokens)).lstrip()
        if self._begun_at is None and head.startswith(self._begin):
            self._begun_at = n
        return head.startswith(self._begin) or self._begin.startswith(head)


def is_whole(text: bytes) -> bool:
    """Whether ``text`` doesn't end within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text)
    return not decoder.getstate()[0]
