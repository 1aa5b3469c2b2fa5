"""Small types that every part of the package shares. It imports no other module of the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

Size = int | Literal["T", "S", "R"]
"""A dimension: a number, or a symbol bound at each step: ``T`` tokens in the step, ``S`` rows whose
logits are wanted, ``R`` rows of embeddings that the caller brings."""

Shape = tuple[Size, ...]

DType = Literal["f32", "i32"]
"""Element type of the values between nodes; weights have a quantized type instead."""

BLOCK_TOKENS = 32
"""Tokens in a block of the KV cache. Small blocks share prefixes well; in a block of this size a
head's keys still fill several cache lines."""

MAIN: Final = "main"
"""The key of a model's own file, and the name of its own graph. Files and graphs of a draft model
or an encoder have other names."""

NO_SLOT = -1
"""Instead of a slot of recurrent state: the sequence starts from zeros."""

NO_ROW = -1
"""Instead of the number of a row of embeddings: the token keeps its own embedding."""

NO_ADAPTERS = -1
"""Instead of a set of adapters: the sequence uses none."""


class Glance(NamedTuple):
    """What a list of models says of a file. ``kind``: "model", "projector", "adapter" or
    "imatrix"; ``quant``: as in "Q4_K_M", "" where the file doesn't say; ``problem``: why the file
    can't be used, "" where it can."""

    kind: str
    quant: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest step that a plan is compiled for.

    * ``n_tokens``, ``n_outputs``, ``n_rows``: the most tokens of a step (``T``), rows whose logits
      are wanted (``S``), and tokens with a row in place of their embedding (``R``).
    * ``n_seqs``: the most sequences of a step.
    * ``n_blocks_per_seq``: the most cache blocks of a sequence.
    * ``n_blocks``, ``block_tokens``: blocks in the cache, and tokens in each.
    * ``n_slots``: slots of recurrent state in the cache.
    * ``whole_sequences``: tokens see later ones, so a step has all tokens of its sequences.
    * ``n_axes``: coordinates of a position.
    * ``row_width``: numbers in a row that replaces an embedding; 0 if there are no such rows.
    * ``spans``: some tokens see later ones of the same step.
    * ``adapters``: sequences choose sets of adapters.
    * ``windows``: for each group of layers that see a window, the window's tokens and the group's
      most blocks; see :mod:`unladen.graph.windows`.
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
    windows: tuple[tuple[int, int], ...] = ()

    @property
    def n_table_columns(self) -> int:
        """Columns of the block table: those of whole sequences, then those of each window."""
        return self.n_blocks_per_seq * (1 + len(self.windows))

    def n_window_blocks(self, i: int) -> int:
        """The blocks of the window ``i``: no more than sequences can hold."""
        return min(self.windows[i][1], self.n_blocks)

    @property
    def n_keys(self) -> int:
        """The most tokens of a sequence."""
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
    """The progress of loading weights, ``seconds`` after the loading began."""

    done_bytes: int
    total_bytes: int
    seconds: float

    @property
    def fraction(self) -> float:
        """The share of the bytes that is done, from 0 to 1."""
        return self.done_bytes / self.total_bytes if self.total_bytes else 1.0

    @property
    def eta_s(self) -> float | None:
        """Seconds left at the speed so far; None while the speed isn't known."""
        return self.seconds * (1 / self.fraction - 1) if self.done_bytes else None


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a request. ``n_cached`` of the prompt's tokens came from the prefix cache.
    ``n_truncated`` tokens of a conversation were left out, as ``on_overflow`` asked."""

    n_prompt: int
    n_completion: int
    n_cached: int = 0
    n_truncated: int = 0

    @property
    def n_total(self) -> int:
        """Prompt and completion together."""
        return self.n_prompt + self.n_completion


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent on a request, and the rates that follow.

    ``n_drafted`` tokens were guessed and checked, and ``n_accepted`` of them were right.
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
"""The most characters of a completion's text that its ``repr`` shows."""

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
