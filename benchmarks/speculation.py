"""Compares speculation by n-gram lookup with plain decoding: the same texts, in turns.

    python benchmarks/speculation.py stories260K-f32.gguf llama-1b-Q4_K_M.gguf

Each file writes three kinds of text. "its story again": greedy; the prompt has a story of the
model's own twice and its beginning a third time. "a passage again": the benchmark chooses the
tokens in place of the model, whose weights may be random. "other": drawn at temperature 1 with a
new seed in each round. The output has medians of tokens per second, their ratios, and how many
drafted tokens were right.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from unladen import Model, SamplerChain
from unladen.sample.base import Candidates, State, Step

START, N_TOKENS = "Once upon a time", 100


@dataclass(frozen=True)
class Again(Step):
    """A sampler step that chooses the tokens of a passage in order, again and again."""

    name: ClassVar[str] = "again"
    chooses: ClassVar[bool] = True
    passage: tuple[int, ...] = ()

    def apply(self, candidates: Candidates, state: State) -> None:
        """See :class:`Step`."""
        n = state.memory.get("again", 0)
        assert isinstance(n, int)
        state.memory["again"] = n + 1
        candidates.chosen = self.passage[n % len(self.passage)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print("| file | text | plain, t/s | speculating, t/s | ratio | right of drafted |")
    print("| --- | --- | --- | --- | --- | --- |")
    for path in args.models:
        options: dict[str, Any] = {"n_threads": args.threads, "devices": ["cpu"]}
        with Model(path, speculate=False, **options) as plain, Model(path, **options) as ours:
            start = plain.tokenize(START)
            for model in (ours, plain):  # afterwards the caches of both hold the same
                story = model.generate(start, max_tokens=N_TOKENS, temperature=0.0,
                                       ignore_eos=True).tokens
            for name, prompt in (("its story again", 2 * (start + story) + start),
                                 ("a passage again", start + story), ("other", start)):
                row = _row(plain, ours, name, prompt, args.rounds)
                print(f"| {Path(path).stem} | {name} | {row} |", flush=True)


def _row(plain: Model, ours: Model, name: str, prompt: list[int], n_rounds: int) -> str:
    rates: dict[Model, list[float]] = {plain: [], ours: []}
    n_drafted = n_accepted = n_unlike = 0
    for seed in range(n_rounds + 1):
        texts = []
        for model in (plain, ours) if seed % 2 else (ours, plain):
            done = model.generate(prompt, max_tokens=N_TOKENS, **_wishes(name, prompt, seed))
            texts.append(done.tokens)
            if seed:  # the first round warms up
                rates[model].append(done.timings.completion_per_second)
            n_drafted += done.timings.n_drafted
            n_accepted += done.timings.n_accepted
        n_unlike += texts[0] != texts[1]
    before, after = (statistics.median(rates[m]) for m in (plain, ours))
    unlike = f"; {n_unlike} texts differ" if n_unlike else ""
    return (f"{before:.0f} | {after:.0f} | {after / before:.2f} | {n_accepted} of {n_drafted}"
            f"{unlike}")


def _wishes(name: str, prompt: list[int], seed: int) -> dict[str, Any]:
    if name == "a passage again":
        return {"sampler": SamplerChain().step(Again(tuple(prompt[:40])))}
    if name == "other":
        return {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": seed,
                "ignore_eos": True}
    return {"temperature": 0.0, "ignore_eos": True}


if __name__ == "__main__":
    main()
