"""Times prompts and generation, with the tests and columns of llama-bench."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unladen.api import Model
from unladen.cache import CachedSequence
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.parameters.kinds import Called, Items, OrNone, Whole, flag, reject
from unladen.runtime.plan import Plan
from unladen.schedule.cut.choose_on_device import SKIPPED
from unladen.types import BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Test:
    """A test: ``n_prompt`` tokens in batches, or ``n_gen`` tokens one at a time, after ``n_depth``
    other tokens.

    ``n_seqs`` sequences generate together, each ``n_gen`` tokens; a prompt is always one sequence.
    """

    n_prompt: int
    n_gen: int
    n_depth: int
    n_seqs: int = 1

    def __post_init__(self) -> None:
        for name in ("n_prompt", "n_gen", "n_depth"):
            object.__setattr__(self, name, Whole(0).of(name, getattr(self, name)))
        object.__setattr__(self, "n_seqs", Whole(1).of("n_seqs", self.n_seqs))

    @property
    def name(self) -> str:
        """The test's name as llama-bench writes it: pp512, tg128, pp512 @ d4096; with eight
        sequences tg128 x8."""
        kind = f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"
        if self.n_seqs > 1:
            kind += f" x{self.n_seqs}"
        return f"{kind} @ d{self.n_depth}" if self.n_depth else kind

    @property
    def n_tokens(self) -> int:
        """Tokens whose time is measured."""
        return self.n_prompt + self.n_gen * self.n_seqs

    @property
    def context(self) -> int:
        """Tokens that the cache must hold; sequences begin on whole blocks."""
        each = self.n_depth + self.n_prompt + self.n_gen
        if self.n_seqs == 1:
            return each
        return -(-each // BLOCK_TOKENS) * BLOCK_TOKENS * self.n_seqs


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
        """The standard deviation of :attr:`samples_ts`; 0 for a single repetition."""
        return statistics.stdev(self.samples_ts) if len(self.samples_ts) > 1 else 0.0


def tests(n_prompts: Sequence[int], n_gens: Sequence[int], depths: Sequence[int],
          n_seqs: Sequence[int]) -> Iterator[Test]:
    """Every prompt and every generation at every depth; a length of 0 makes no test."""
    counts = Items(Whole(0), "a list of numbers of tokens")
    n_prompts, n_gens = counts.of("n_prompts", n_prompts), counts.of("n_gens", n_gens)
    depths, n_seqs = counts.of("depths", depths), counts.of("n_seqs", n_seqs)
    for depth in depths:
        yield from (Test(n, 0, depth) for n in n_prompts if n)
        yield from (Test(0, n, depth, seqs) for n in n_gens if n for seqs in n_seqs)


def measure(model: Model, test: Test, n_repeat: int, *, logits: bool = False,
            progress: Callable[[int], None] | None = None) -> Result:
    """Time ``test`` ``n_repeat`` times. One whole repetition before is not counted: kernels are
    compiled, and commands recorded, for the sizes and depths of its steps. Background work that
    steps would start is finished after it.

    Tokens are random. A step returns the likeliest next token, as with temperature 0, if the
    model's devices can choose it; otherwise, and with ``logits``, it returns a row of logits. A
    prompt returns this for its last token only. Nothing is sampled, so the time is that of the
    steps alone. ``progress`` is called between repetitions with the number done. Nothing else may
    use ``model`` meanwhile. Raises :class:`InvalidArgument`, and :class:`ContextOverflow` where
    ``test`` needs more than the model's context.
    """
    if not isinstance(model, Model):
        reject("model", "an unladen.Model", model)
    if not isinstance(test, Test):
        reject("test", "a Test, as tests() returns them", test)
    n_repeat, logits = Whole(1).of("n_repeat", n_repeat), flag("logits", logits)
    OrNone(Called("a function of a number of repetitions")).of("progress", progress)
    most = model.engine.plan.blueprint.limits.n_seqs
    if test.n_seqs > most:
        raise InvalidArgument(f"{test.name}: a step has at most {most} sequences",
                              hint=f"try {most} or a larger batch_size")
    if test.context > model.context_size:
        raise ContextOverflow(f"{test.name} takes {test.context} tokens, the context holds "
                              f"{model.context_size}",
                              hint="load the model with a larger context_size")
    runner = _Runner(model, "argmax" if "argmax" in model.engine.plan.n_best and not logits else "")
    runner.run(test)
    model.engine.plan.settle()
    samples = []
    for i in range(n_repeat):
        samples.append(runner.run(test))
        if progress is not None:
            progress(i + 1)
    return Result(test, samples)


class _Runner:
    def __init__(self, model: Model, op: str) -> None:
        self._op = op
        self._engine = model.engine
        self._plan: Plan = self._engine.plan
        self._n_vocab = model.engine.n_vocab
        self._rng = np.random.default_rng(0)

    def run(self, test: Test) -> int:
        """Nanoseconds of one repetition. The cache is emptied, then filled to the test's depth."""
        n_batch = self._plan.blueprint.limits.n_tokens
        sequences = [self._engine.sequence() for _ in range(test.n_seqs)]
        try:
            for sequence in sequences:
                self._feed([sequence], test.n_depth, n_batch)
            start = time.perf_counter_ns()
            self._feed(sequences[:1], test.n_prompt, n_batch)
            self._feed(sequences, test.n_gen, 1)
            return time.perf_counter_ns() - start
        finally:
            for sequence in sequences:
                sequence.release()

    def _feed(self, sequences: Sequence[CachedSequence], n_tokens: int, n_batch: int) -> None:
        """Compute ``n_tokens`` more tokens of each sequence, ``n_batch`` of each in a step."""
        batch, n_seqs = self._plan.batch, len(sequences)
        tokens = self._rng.integers(0, self._n_vocab, (n_seqs, n_tokens)).tolist()
        for at in range(0, n_tokens, n_batch):
            n = min(n_batch, n_tokens - at)
            for s, sequence in enumerate(sequences):
                assert sequence.reserve(sequence.length + n)
                last = batch.place(s, s * n, tokens[s][at:at + n], sequence.length,
                                   sequence.blocks)
                batch.out_rows[s] = last - 1
            batch.n_tokens, batch.n_outputs, batch.n_seqs = n * n_seqs, n_seqs, n_seqs
            batch.skip, batch.continues = SKIPPED[self._op], False
            self._plan.run()
            for sequence in sequences:
                sequence.length += n
        if n_tokens:
            self._plan.output(self._op or "logits")  # waits until the devices have finished
