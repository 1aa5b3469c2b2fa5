"""The sizes on which the graph of a step depends. Steps of equal sizes share a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from unladen.graph.batch import Batch
from unladen.graph.ops.attention import Scoring
from unladen.types import Limits


@dataclass(frozen=True, slots=True)
class Rows:
    """A sequence of the step: its rows ``first .. last``, and at least how many keys it has."""

    first: int
    last: int
    n_keys: int

    @property
    def n(self) -> int:
        """The sequence's tokens in this step."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a step. ``skip`` names ops whose results nobody reads."""

    n_tokens: int
    n_outputs: int
    n_rows: int
    seqs: tuple[Rows, ...]
    skip: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, batch: Batch) -> Sizes:
        """The sizes of the step in ``batch``; numbers of keys are rounded up, so that the steps of
        a growing sequence share graphs."""
        ends = batch.q_start[:batch.n_seqs + 1].tolist()
        keys = batch.kv_len[:batch.n_seqs].tolist()
        return cls(batch.n_tokens, batch.n_outputs, batch.n_rows, tuple(
            Rows(a, b, rounded(n)) for a, b, n in zip(ends, ends[1:], keys, strict=False)),
            batch.skip)

    @classmethod
    def largest(cls, limits: Limits) -> Sizes:
        """The step of ``limits`` that needs most working memory: one long sequence has all
        tokens."""
        return cls(limits.n_tokens, limits.n_outputs, limits.n_rows,
                   (Rows(0, limits.n_tokens, rounded(max(limits.n_keys, limits.n_tokens))),))

    def of_symbol(self, size: int | str) -> int:
        """A dimension of a value's shape in this step."""
        if isinstance(size, int):
            return size
        return {"T": self.n_tokens, "S": self.n_outputs, "R": self.n_rows}[size]


def rounded(n: int) -> int:
    """``n`` rounded up to a multiple of 64, and from 1024 on of 512."""
    step = 64 if n <= 1024 else 512
    return -(-n // step) * step


def visible_keys(scoring: Scoring, rows: Rows) -> int:
    """Room for the keys that any token of ``rows`` sees."""
    if scoring.window and scoring.causal and not scoring.spans:
        return min(rows.n_keys, rounded(rows.n + scoring.window))
    return rows.n_keys
