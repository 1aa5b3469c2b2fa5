"""Learns how long steps take, and how many tokens of prompts a step may compute in a given time.

Every sequence of a step waits for the step's end. So a step with prompts is kept short while others
wait: sequences that decode, and short prompts, whose first token is due.

A step is taken to need a fixed time for the sequences that decode, and a time for each unit of
prompts. A unit is a token at the beginning of a sequence. A token that sees many keys counts as
more: the graph says how much work a key is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from unladen.graph.graph import Graph
from unladen.graph.ops import get_op
from unladen.types import Limits

if TYPE_CHECKING:
    from unladen.engine.batcher import Work

SLOWDOWN = 3
"""A step with prompts may take this many times as long as one without, even if that is longer than
the bound. Else prompts would hardly be read where a step takes long without any prompt."""

KEY_WEIGHT = 2.5
"""Work of attention takes this many times as long as the same work in matrices of weights, whose
kernels are faster. Measured on the CPU."""

UP, DOWN = 1 / 4, 1 / 2
"""Weights of the latest time in a running mean. A step may take long by accident, beside a busy
program for example, but is never quick by accident."""

MOST = 2
"""A time counts as at most this many times the mean so far, because it may be an accident."""


class _Mean:
    """A running mean of seconds; None before the second time is known. The first one doesn't
    count, because the step touches much memory for the first time."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._has_begun = False

    def add(self, seconds: float) -> None:
        """Take in one time."""
        if self.seconds is None:
            if self._has_begun:
                self.seconds = seconds
            self._has_begun = True
            return
        change = min(seconds, MOST * self.seconds) - self.seconds
        self.seconds += change * (UP if change > 0 else DOWN)


class Load(NamedTuple):
    """What a step computes: a token each of ``n_decoding`` sequences, and ``units`` of prompts."""

    n_decoding: int
    units: float


class Pace:
    """The times of steps with ``graph``, and the bound of ``step_seconds``; None: no bound."""

    def __init__(self, step_seconds: float | None, graph: Graph) -> None:
        self._bound = math.inf if step_seconds is None else step_seconds
        self._per_key = KEY_WEIGHT * _key_share(graph)
        self._decoding: dict[int, _Mean] = {}
        self._unit = _Mean()
        self._has_waited = True

    def cost(self, n_keys: int) -> float:
        """Units of a token of a prompt behind ``n_keys`` others."""
        return 1 + self._per_key * n_keys

    def units(self, n_decoding: int) -> float:
        """How many units of prompts a step may compute beside ``n_decoding`` sequences; 0 while
        nothing is known."""
        if math.isinf(self._bound):
            return math.inf
        if self._unit.seconds is None:
            return 0.0
        fixed = self._fixed(n_decoding)
        left = max(self._bound, SLOWDOWN * fixed) - fixed
        return left / self._unit.seconds if self._unit.seconds > 0 else math.inf

    def load(self, work: Sequence[Work]) -> Load | None:
        """What ``work``, which wasn't computed yet, is to compute. None without a bound, and with
        drafts, which say nothing about other steps."""
        if math.isinf(self._bound):
            return None
        n_decoding, units = 0, 0.0
        for item in work:
            if item.draft:
                return None
            if item.n_tokens == 1:
                n_decoding += 1
            else:
                units += item.n_tokens * self.cost(item.running.cached.length)
        return Load(n_decoding, units)

    def learn(self, load: Load | None, seconds: float, *, has_waited: bool) -> None:
        """Note that a step with ``load`` took ``seconds``. ``has_waited``: the engine waited for
        its results. Otherwise the device may still be at work, and its time shows later."""
        is_known, self._has_waited = has_waited and self._has_waited, has_waited
        if load is None or not is_known:
            return
        if not load.units:
            if load.n_decoding not in self._decoding:
                self._decoding[load.n_decoding] = _Mean()
            self._decoding[load.n_decoding].add(seconds)
            return
        fixed = self._fixed(load.n_decoding)
        if seconds < fixed:  # what is known of steps without prompts is out of date
            self._decoding.clear()
            fixed = 0.0
        self._unit.add((seconds - fixed) / load.units)

    def _fixed(self, n_decoding: int) -> float:
        """Seconds of a step with ``n_decoding`` sequences alone, or with the nearest number that is
        known."""
        if not n_decoding:
            return 0.0
        known = [(abs(n - n_decoding), mean.seconds) for n, mean in self._decoding.items()
                 if mean.seconds is not None]
        return min(known)[1] if known else 0.0


def _key_share(graph: Graph) -> float:
    """How much work it is to see one more key, as a part of the work that a token is without any
    keys. Layers that see a window don't count: there the work hardly grows."""
    few, many = (Limits(1, 1, 1, n, n, 1) for n in (1, 1025))
    nodes = [n for n in graph.nodes if not n.attrs.get("window")]
    work = sum(get_op(n.op).flops(n, few) for n in graph.nodes)
    more = sum(get_op(n.op).flops(n, many) - get_op(n.op).flops(n, few) for n in nodes)
    return max(0.0, more / 1024 / work) if work else 0.0
