"""Learns how long steps of different sizes take."""

from __future__ import annotations

LEARNING = 1 / 8
"""Weight of the latest step in the running mean of its size."""


class StepCosts:
    """The seconds that a step of a given number of rows takes, learned from the steps that ran."""

    PATIENCE = 256
    """Steps after which the time of a size is estimated again, so that a size that once seemed slow
    is tried again."""

    SLOPE = 0.05
    """Assumed cost of one more row, as a fraction of a step, until it is measured."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._last: dict[int, int] = {}
        self._n_steps = 0

    def add(self, n_rows: int, seconds: float) -> None:
        """Note that a step of ``n_rows`` took ``seconds``. The first step of a size doesn't count,
        because it touches much memory for the first time. A step that took very long, as beside a
        busy program, counts as twice the usual time."""
        self._n_steps += 1
        known = self._seconds.get(n_rows)
        if known is not None:
            self._seconds[n_rows] = known + (min(seconds, 2 * known) - known) * LEARNING
        elif n_rows in self._last:
            self._seconds[n_rows] = seconds
        self._last[n_rows] = self._n_steps

    def of(self, n_rows: int, base: int) -> float:
        """Seconds of a step of ``n_rows``; where that is unknown, estimated from a step of ``base``
        rows; 0 while the time of that is unknown too."""
        known, least = self._seconds.get(n_rows), self._seconds.get(base, 0.0)
        if known is not None and self._n_steps - self._last[n_rows] <= self.PATIENCE:
            return known
        return least * (1 + self.SLOPE * (n_rows - base))
