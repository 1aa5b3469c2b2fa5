"""Timing of prompts and of generation, in the tests and columns of llama-bench."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unladen.api import Model
from unladen.cache import CachedSequence
from unladen.errors import ContextOverflow
from unladen.schedule.narrow import NARROWING
from unladen.schedule.plan import Plan


@dataclass(frozen=True, slots=True)
class Test:
    """``n_prompt`` tokens in batches or ``n_gen`` one at a time, after ``n_depth`` others."""

    n_prompt: int
    n_gen: int
    n_depth: int

    @property
    def name(self) -> str:
        """As llama-bench writes it: pp512, tg128, pp512 @ d4096."""
        kind = f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"
        return f"{kind} @ d{self.n_depth}" if self.n_depth else kind

    @property
    def n_tokens(self) -> int:
        """Tokens timed."""
        return self.n_prompt + self.n_gen


@dataclass(frozen=True, slots=True)
class Result:
    """Nanoseconds of each repetition, and tokens per second from them."""

    test: Test
    samples_ns: list[int]

    @property
    def samples_ts(self) -> list[float]:
        """Tokens per second of each repetition."""
        return [self.test.n_tokens * 1e9 / ns for ns in self.samples_ns]

    @property
    def avg_ts(self) -> float:
        """Mean of :attr:`samples_ts`."""
        return statistics.fmean(self.samples_ts)

    @property
    def stddev_ts(self) -> float:
        """Their standard deviation; 0 of a single one."""
        return statistics.stdev(self.samples_ts) if len(self.samples_ts) > 1 else 0.0


def tests(n_prompts: list[int], n_gens: list[int], depths: list[int]) -> Iterator[Test]:
    """Every wanted prompt and generation at every depth; 0 tokens are no test."""
    for depth in depths:
        yield from (Test(n, 0, depth) for n in n_prompts if n)
        yield from (Test(0, n, depth) for n in n_gens if n)


def measure(model: Model, test: Test, n_repeat: int) -> Result:
    """Time ``test`` ``n_repeat`` times, after one round that isn't counted.

    Tokens are random, nothing is sampled, and a prompt's logits are computed for its last token
    only: what a step costs without what surrounds it. Nothing else may use ``model`` meanwhile.
    Raises :class:`ContextOverflow` where ``test`` needs more than the model's context.
    """
    n = test.n_depth + test.n_tokens
    if n > model.context_size:
        raise ContextOverflow(f"{test.name} takes {n} tokens, the context holds "
                              f"{model.context_size}",
                              hint="load the model with a larger context_size")
    runner = _Runner(model)
    runner.run(Test(min(test.n_prompt, 32), min(test.n_gen, 1), 0))
    return Result(test, [runner.run(test) for _ in range(n_repeat)])


class _Runner:
    def __init__(self, model: Model) -> None:
        self._engine = model.engine
        self._plan: Plan = self._engine.plan
        self._n_vocab = model.architecture.n_vocab
        self._rng = np.random.default_rng(0)

    def run(self, test: Test) -> int:
        """Nanoseconds of one repetition, on an empty cache filled to the test's depth."""
        n_batch = self._plan.draft.limits.n_tokens
        sequence = self._engine.sequence()
        try:
            self._feed(sequence, test.n_depth, n_batch)
            start = time.perf_counter_ns()
            self._feed(sequence, test.n_prompt, n_batch)
            self._feed(sequence, test.n_gen, 1)
            return time.perf_counter_ns() - start
        finally:
            sequence.release()

    def _feed(self, sequence: CachedSequence, n_tokens: int, n_batch: int) -> None:
        batch = self._plan.batch
        tokens = self._rng.integers(0, self._n_vocab, n_tokens, dtype=np.int32)
        for at in range(0, n_tokens, n_batch):
            n = min(n_batch, n_tokens - at)
            start = sequence.length
            assert sequence.reserve(start + n)
            batch.tokens[:n] = tokens[at:at + n]
            batch.positions[:n] = range(start, start + n)
            batch.seq_of[:n] = 0
            batch.q_start[1] = n
            batch.kv_len[0] = start + n
            batch.block_table[0, :sequence.n_blocks] = sequence.table[:sequence.n_blocks]
            batch.out_rows[0] = n - 1
            batch.n_tokens, batch.n_outputs, batch.n_seqs = n, 1, 1
            batch.skip, batch.continues = frozenset(NARROWING), False
            self._plan.run()
            sequence.length += n
        if n_tokens:
            self._plan.output("logits")  # a device may still be at it
