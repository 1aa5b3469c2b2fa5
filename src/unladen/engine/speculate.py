"""Speculation without a draft model: what a text has said before it may say again.

Where the last tokens of a sequence stood before, those that followed them there are computed in the
same step as the next token is. Each of them is then chosen from its own logits in its turn, by the
request's own sampler, for as long as the choice is what was guessed. So the tokens are those of the
model, drawn with the same numbers: a guess decides how many come out of a step and nothing else.
(The same method: "prompt lookup decoding", A. Saxena 2023.)

How often guesses come true is counted on every token, drafted or not; what a step of so many rows
takes is measured. Drafts are as long as these two make it worth while, and mostly there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unladen.engine.batcher import Work
from unladen.engine.blame import keep
from unladen.types import Limits

SIZES = (1, 3, 7, 15, 31, 63)
"""Drafted tokens of a step that are considered: few, so that each size's time is known soon."""

LEARNING = 1 / 8
"""Weight of the latest step in the time that its size takes."""

WATCHED = 8
"""Of so many steps without drafts the time of one is taken: it would be felt in a small model's."""

SHORT_STEP, SELDOM = 2e-4, 4
"""Seconds: while steps take less and nothing is found, tokens are looked at so many at a time."""

GAIN = 1.03
"""By how much a step with drafts must promise to be better than one without."""


class StepCosts:
    """Seconds that a step takes by its rows, from what steps took."""

    PATIENCE = 256
    """Steps after which a size that seemed slow is tried again."""

    SLOPE = 0.05
    """What a row more is thought to cost, relative to a step, while nobody knows."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._last: dict[int, int] = {}
        self._n_steps = 0

    def add(self, n_rows: int, seconds: float) -> None:
        """A step of ``n_rows`` took ``seconds``. The first one of a size doesn't count: much is
        touched for the first time. Nor does what some other program took from a step."""
        self._n_steps += 1
        known = self._seconds.get(n_rows)
        if known is not None:
            self._seconds[n_rows] = known + (min(seconds, 2 * known) - known) * LEARNING
        elif n_rows in self._last:
            self._seconds[n_rows] = seconds
        self._last[n_rows] = self._n_steps

    def of(self, n_rows: int, base: int) -> float:
        """Seconds of a step of ``n_rows``, or what they may be beside one of ``base`` rows. 0 while
        that one's aren't known."""
        known, least = self._seconds.get(n_rows), self._seconds.get(base, 0.0)
        if known is not None and self._n_steps - self._last[n_rows] <= self.PATIENCE:
            return known
        return least * (1 + self.SLOPE * (n_rows - base))


class Speculator:
    """Decides for an engine's steps what is drafted: at most ``n_draft`` tokens a sequence, 0 for
    none. :attr:`is_watching`: it wants to know what the step takes."""

    def __init__(self, n_draft: int, costs: StepCosts | None = None) -> None:
        self.costs = StepCosts() if costs is None else costs
        self.is_watching = False
        self._n_draft = n_draft
        self._n_steps, self._interval = 0, 1

    def extend(self, work: list[Work], limits: Limits, context_size: int) -> list[Work]:
        """``work`` with drafts where they promise to pay. Steps with prompts in them get none:
        their rows cost what they cost. Nor do those with recurrent state, from which no token can
        be taken back."""
        self._n_steps += 1
        if self._n_steps % self._interval:
            self.is_watching = False
            return work
        chances = self._chances(work, limits)
        if not chances:
            return work
        n_most = min(limits.n_tokens, limits.n_outputs) - len(work)
        found = sorted(((chance, i) for chance, i, n in chances
                        if n < work[i].request.n_left(context_size)), reverse=True)[:n_most]
        n_best = self._best([chance for chance, _ in found], len(work))
        if not n_best:
            return work
        counts = Counter(i for _, i in found[:n_best])
        return [_with_draft(item, counts[i]) for i, item in enumerate(work)]

    def expects(self, work: Sequence[Work], limits: Limits) -> bool:
        """Whether the step after ``work`` is likely to have drafts, so that it is better not to
        start it before the tokens of ``work`` are known."""
        chances = [chance for chance, _, _ in self._chances(work, limits)]
        return self._best(sorted(chances, reverse=True), len(work)) > 0

    def took(self, work: Sequence[Work], seconds: float) -> None:
        """A step with ``work`` took ``seconds``."""
        n_rows = 0
        for item in work:
            if item.n_outputs < item.n_tokens:
                return
            n_rows += item.n_tokens
        self.costs.add(n_rows, seconds)

    def forget(self) -> None:
        """From here on steps may take another time."""
        self.costs = type(self.costs)()

    def _chances(self, work: Sequence[Work], limits: Limits) -> list[tuple[float, int, int]]:
        """How likely guesses are right: each with the place of its work, and its own in the draft
        from 1 on."""
        found: list[tuple[float, int, int]] = []
        self.is_watching = False
        if self._n_draft == 0 or limits.n_slots:
            return found
        for i, item in enumerate(work):
            request = item.request
            if item.n_tokens > 1 or not item.n_outputs or request.sampler is None:
                return []
            chances = keep(request, request.lookup.chances, request.tokens, self._n_draft)
            if chances:
                found += [(chance, i, n) for n, chance in enumerate(chances, 1)]
        self.is_watching = bool(found) or self._n_steps % WATCHED == 0
        self._interval = 1 if found or self.costs.of(1, 1) > SHORT_STEP else SELDOM
        return found

    def _best(self, chances: Sequence[float], n: int) -> int:
        """How many guesses of these falling ``chances`` to compute along with ``n`` tokens."""
        plain, best = self.costs.of(n, n), 0
        if not plain:
            return 0
        best_rate = GAIN * n / plain
        for size in SIZES if chances else ():
            size = min(size, len(chances))
            rate = (n + sum(chances[:size])) / self.costs.of(n + size, n)
            if rate > best_rate:
                best, best_rate = size, rate
            if size == len(chances):
                break
        return best


def _with_draft(item: Work, n: int) -> Work:
    if n == 0:
        return item
    return Work(item.request, 1 + n, 1 + n, item.request.lookup.draft(n))
