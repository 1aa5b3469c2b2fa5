"""top_k: keep the k most likely tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unladen.sample.base import Candidates, State, Step, whole


@dataclass(frozen=True)
class TopK(Step):
    """Keep the ``k`` candidates with the largest logits, the lower id in a tie; 0 or less keeps
    all.

    A. Fan, M. Lewis, Y. Dauphin, "Hierarchical neural story generation", ACL 2018.
    """

    name: ClassVar[str] = "top_k"
    opcode: ClassVar[str | None] = "top_k"
    k: int = 40

    def __post_init__(self) -> None:
        whole("top_k", self.k, -2**31)

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return max(self.k, 0)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Keep by rank."""
        if self.k > 0:
            candidates.keep(candidates.ranks() < self.k)

    def packed(self) -> tuple[float, ...]:
        """(k,)."""
        return (self.k,)
