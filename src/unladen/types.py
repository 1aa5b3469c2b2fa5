"""Small types that every part of the package shares. It imports no other module of the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Size = int | Literal["T", "S", "R"]
"""A dimension: a number, or a symbol bound at each step: ``T`` tokens in the step, ``S`` rows whose
logits are wanted, ``R`` rows of embeddings that the caller brings."""

Shape = tuple[Size, ...]

DType = Literal["f32", "i32"]
"""Element type of the values between nodes; weights have a quantized type instead."""

BLOCK_TOKENS = 32
"""Tokens of a block of the KV cache: small enough to share prefixes well, large enough that a
head's keys in one block fill several cache lines."""

MAIN: Final = "main"
"""The key of a model's own file among those that its weights come from, and the name of its own
graph among those that are run: what a draft model or an encoder brings has other ones."""

NO_SLOT = -1
"""Stands in place of a slot of recurrent state for a sequence that starts with zeros."""

NO_ROW = -1
"""In place of a row of embeddings: the token's own embedding counts."""

NO_ADAPTERS = -1
"""In place of a set of adapters: a sequence uses the model as it is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest step that a plan is compiled for.

    ``n_tokens`` and ``n_outputs`` bound ``T`` and ``S``; ``n_seqs`` sequences of at most
    ``n_blocks_per_seq`` cache blocks take part; the cache has ``n_blocks`` blocks in all, of
    ``block_tokens`` tokens each, and ``n_slots`` slots of recurrent state. ``whole_sequences``:
    tokens see those after them, so a sequence goes through one step as a whole. ``n_axes``: the
    coordinates of a position. Up to ``n_rows`` tokens have a row of ``row_width`` numbers in place
    of their embedding. ``spans``: some tokens see others behind them. ``adapters``: sequences
    choose sets of adapters.
    """

    n_tokens: int
    n_outputs: int
    n_seqs: int
    n_blocks_per_seq: int
    n_blocks: int
    block_tokens: int = BLOCK_TOKENS
    n_slots: int = 0
    whole_sequences: bool = False
    n_axes: int = 1
    n_rows: int = 0
    row_width: int = 0
    spans: bool = False
    adapters: bool = False

    @property
    def n_keys(self) -> int:
        """Tokens of the longest sequence."""
        return self.n_blocks_per_seq * self.block_tokens

    def bind(self, size: Size) -> int:
        """The largest value of ``size``."""
        if size == "T":
            return self.n_tokens
        if size == "S":
            return self.n_outputs
        return self.n_rows if size == "R" else size

    def count(self, shape: Shape) -> int:
        """The largest number of elements of ``shape``."""
        n = 1
        for size in shape:
            n *= self.bind(size)
        return n


def size_text(n_bytes: int) -> str:
    """``n_bytes`` as a person reads it: "24.0 GiB", "5.8 MiB"."""
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.1f} MiB"


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of loading weights, ``seconds`` after it began."""

    done_bytes: int
    total_bytes: int
    seconds: float

    @property
    def fraction(self) -> float:
        """The part that is done, from 0 to 1."""
        return self.done_bytes / self.total_bytes if self.total_bytes else 1.0

    @property
    def eta_s(self) -> float | None:
        """Seconds left at the speed so far; None while the speed isn't known."""
        return self.seconds * (1 / self.fraction - 1) if self.done_bytes else None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request: ``n_cached`` of the prompt came from the prefix cache."""

    n_prompt: int
    n_completion: int
    n_cached: int = 0

    @property
    def n_total(self) -> int:
        """Prompt and completion together."""
        return self.n_prompt + self.n_completion


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on a request, and the rates that follow.

    ``n_drafted`` tokens were guessed ahead and computed, ``n_accepted`` of them were right.
    """

    prompt_s: float
    completion_s: float
    n_prompt: int
    n_completion: int
    n_drafted: int = 0
    n_accepted: int = 0

    @property
    def prompt_per_second(self) -> float:
        """Prompt tokens computed per second."""
        return self.n_prompt / self.prompt_s if self.prompt_s > 0 else 0.0

    @property
    def completion_per_second(self) -> float:
        """Tokens generated per second after the first."""
        n = self.n_completion - 1
        return n / self.completion_s if n > 0 and self.completion_s > 0 else 0.0


SHOWN_TEXT = 60
"""Characters of a completion's text that its ``repr`` shows at most."""

StopReason = Literal["eos", "stop", "length", "context", "deadline", "cancelled"]
"""Why a generation ended: an end token, a stop string, ``max_tokens``, a full context, the
``deadline``, a cancel."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's log-probability and its ``top`` alternatives as (token id, log-probability)."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Completion:
    """The result of a request."""

    text: str
    tokens: list[int]
    stop_reason: StopReason
    timings: Timings
    usage: Usage
    logprobs: list[TokenLogprob] | None = field(default=None)

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= SHOWN_TEXT else f"{self.text[:SHOWN_TEXT - 3]}..."
        rate = self.timings.completion_per_second
        return (f"<Completion {text!r}: {len(self.tokens)} tokens"
                + (f" at {rate:.1f}/s" if rate else "") + f", ended by {self.stop_reason}>")
