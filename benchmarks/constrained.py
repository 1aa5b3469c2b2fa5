"""Compares the speed of answers of a given form with that of free text: runs in turn, medians.

    python benchmarks/constrained.py MODEL.gguf [--tokens 96] [--runs 7] [--requests 1]

Both write the same number of tokens with the same sampler. The form is a JSON schema that lets no
answer end early; each answer is left after these tokens. The ratio is the median of those of each
run, since a busy machine changes its speed meanwhile. Exit code 1: it is below 0.95.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

from unladen import Model

LEAST = 0.95
"""The part of the speed of free text that answers of a form must reach."""
FORM = {"type": "array", "minItems": 60, "items": {
    "type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "number"},
                                     "kind": {"enum": ["small", "large"]}},
    "required": ["name", "size", "kind"], "additionalProperties": False}}


def rate(model: Model, n_tokens: int, n_requests: int, seed: int, **form: Any) -> float:
    """Tokens a second."""
    start = time.perf_counter()
    streams = [model.stream([1, 5 + i], temperature=1.0, top_k=40, seed=seed, ignore_eos=True,
                            **form) for i in range(n_requests)]
    for stream in streams:
        for _ in stream:
            if len(stream.result.tokens) >= n_tokens:
                break
    n = sum(len(stream.result.tokens) for stream in streams)
    seconds = time.perf_counter() - start
    for stream in streams:
        stream.close()
    return n / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--requests", type=int, default=1)
    args = parser.parse_args()
    forms: dict[str, dict[str, Any]] = {"free": {}, "json": {"response_format": FORM}}
    rates: dict[str, list[float]] = {name: [] for name in forms}
    with Model(args.model, context_size=2048, speculate=False) as model:
        for form in forms.values():
            rate(model, 8, args.requests, 0, **form)
        for run in range(args.runs):
            for name, form in forms.items():
                rates[name].append(rate(model, args.tokens, args.requests, run, **form))
    for name, each in rates.items():
        print(f"{name}: {statistics.median(each):.2f} tokens/s, "
              f"from {min(each):.2f} to {max(each):.2f}")
    ratios = [json / free for json, free in zip(rates["json"], rates["free"], strict=True)]
    ratio = statistics.median(ratios)
    print(f"ratio {ratio:.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")
    return int(ratio < LEAST)


if __name__ == "__main__":
    sys.exit(main())
