"""Drafts without a second model: a text that repeats itself foretells its next tokens.

Where the last tokens of a sequence occurred before, the tokens that followed them there are the
draft. They are computed in the same step as the next token. Each is then chosen from its own logits
by the request's own sampler, for as long as the choices agree with the draft. So the tokens are
those of the model, drawn with the same numbers: a draft decides only how many come out of a step.
(The same method: "prompt lookup decoding", A. Saxena 2023.)

The engine counts on every token, drafted or not, how often drafts come true, and measures what
steps of different sizes take. Drafts are as long as these two numbers make it worthwhile; most
steps have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unladen.engine.batcher import Work
from unladen.engine.blame import keep
from unladen.engine.speculate.costs import StepCosts
from unladen.types import Limits

SIZES = (1, 3, 7, 15, 31, 63)
"""Numbers of drafted tokens in a step that are considered: few, so that the time of each is known
soon."""

WATCHED = 8
"""Time one undrafted step in 8; timing each would slow small models."""

SHORT_STEP, CHECK_INTERVAL = 2e-4, 4
"""While steps take less than this many seconds and nothing is found, look for drafts in one step of
four: the search would take a noticeable part of such a step."""

GAIN = 1.03
"""Draft only if a step with drafts promises at least this many times the tokens a second of a step
without."""


class Speculator:
    """Decides what an engine's steps draft: at most ``n_draft`` tokens a sequence, 0 for none.
    :attr:`is_watching`: the engine must report by :meth:`took` how long this step takes."""

    def __init__(self, n_draft: int, costs: StepCosts | None = None) -> None:
        self.costs = StepCosts() if costs is None else costs
        self.is_watching = False
        self._n_draft = n_draft
        self._n_steps, self._interval = 0, 1

    def extend(self, work: list[Work], limits: Limits, context_size: int) -> list[Work]:
        """``work`` with drafts where they promise to pay. Steps with prompts get no drafts: each
        further row would cost its full time there. Nor do steps with recurrent state, from which no
        token can be taken back."""
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
        """Learn from a step with ``work`` that took ``seconds``."""
        n_rows = 0
        for item in work:
            if item.n_outputs < item.n_tokens:
                return
            n_rows += item.n_tokens
        self.costs.add(n_rows, seconds)

    def forget(self) -> None:
        """Forget all measured times: steps of another plan take other times."""
        self.costs = type(self.costs)()

    def _chances(self, work: Sequence[Work], limits: Limits) -> list[tuple[float, int, int]]:
        """For each possible guess: the probability that it is right, the index of its work, and its
        number in the draft, from 1 on."""
        found: list[tuple[float, int, int]] = []
        self.is_watching = False
        if self._n_draft == 0 or limits.n_slots:
            return found
        for i, item in enumerate(work):
            request = item.request
            if item.n_tokens > 1 or not item.n_outputs or request.sampler is None:
                return []
            chances = keep(request, item.running.lookup.chances, request.tokens, self._n_draft)
            if chances:
                found += [(chance, i, n) for n, chance in enumerate(chances, 1)]
        self.is_watching = bool(found) or self._n_steps % WATCHED == 0
        self._interval = 1 if found or self.costs.of(1, 1) > SHORT_STEP else CHECK_INTERVAL
        return found

    def _best(self, chances: Sequence[float], n: int) -> int:
        """How many guesses to compute along with ``n`` tokens for the most tokens a second.
        ``chances``: the probability that each guess is right, in falling order."""
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
    return Work(item.running, 1 + n, 1 + n, item.running.lookup.draft(n))
