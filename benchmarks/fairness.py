"""What a long prompt does to others: running streams, and a short request that comes meanwhile.

    python benchmarks/fairness.py 1b-Q4_K_M.gguf

``--streams`` streams run. Then a request with ``--long`` tokens comes, and ``--after`` seconds
later one with ``--short`` tokens. One thread runs the steps of all, as a server does. Reported are

* the slowest gap between two pieces of a stream while the long prompt is read,
* the time from the short request to its first piece,
* the time from the long request to its first piece,
* the tokens a second that all streams wrote meanwhile.

In turns, ``--rounds`` times each, with every bound in ``--bounds`` as ``step_seconds``; "none" is
no bound. One model after another is in memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from unladen import Model
from unladen.engine import Engine, Request
from unladen.sample import SamplerChain
from unladen.tokenizer import StreamDecoder

FIGURES = {"gap": "slowest gap, s", "short": "first token of the short one, s",
           "long": "first token of the long one, s", "rate": "tokens/s of the streams"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--long", type=int, default=4096)
    parser.add_argument("--short", type=int, default=125)
    parser.add_argument("--after", type=float, default=2.0)
    parser.add_argument("--bounds", nargs="+", default=["none", "0.4"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="raw results go there")
    args = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {bound: [] for bound in args.bounds}
    for _ in range(args.rounds):
        for bound, results in found.items():
            results.append(one(args, None if bound == "none" else float(bound)))
            print(bound, results[-1], file=sys.stderr, flush=True)
    print(f"| step_seconds | {' | '.join(FIGURES.values())} |\n| --- |{' --- |' * len(FIGURES)}")
    for bound, results in found.items():
        cells = (statistics.median(r[key] for r in results) for key in FIGURES)
        print(f"| {bound} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


def submit(model: Model, n_prompt: int, n_write: int, rng: np.random.Generator) -> Request:
    """A greedy request with a random prompt that writes ``n_write`` tokens."""
    prompt = rng.integers(3, model.tokenizer.n_vocab, n_prompt).tolist()
    request = Request(prompt, sampler=SamplerChain().greedy().build(), max_tokens=n_write,
                      decoder=StreamDecoder(model.tokenizer))
    model.engine.submit(request)
    return request


def one(args: argparse.Namespace, bound: float | None) -> dict[str, float]:
    """The figures of one run with ``bound``."""
    rng = np.random.default_rng(1)
    room = (args.streams + 1) * 4096 + args.long + args.short
    with Model(args.model, devices=["cpu"], step_seconds=bound, speculate=False,
               context_size=max(4096, args.long + 256), cache_tokens=room) as model:
        engine = model.engine
        engine.plan.settle()
        streams = [submit(model, 125, 3000, rng) for _ in range(args.streams)]
        drive(engine, streams, [], lambda: all(len(r.tokens) > r.n_prompt + 8 for r in streams))
        start = time.perf_counter()
        n_before = sum(len(r.tokens) for r in streams)
        long = submit(model, args.long, 2, rng)
        came: list[tuple[float, Request]] = []
        drive(engine, [*streams, long], came, lambda: time.perf_counter() > start + args.after)
        began = time.perf_counter()
        short = submit(model, args.short, 2, rng)
        drive(engine, [*streams, long, short], came, lambda: bool(
            len(long.tokens) > long.n_prompt and len(short.tokens) > short.n_prompt))
        seconds = time.perf_counter() - start
        n_written = sum(len(r.tokens) for r in streams) - n_before
        first = {id(r): next(t for t, each in came if each is r) for r in (short, long)}
        times = [[start, *(t for t, each in came if each is r)] for r in streams]
    return {"gap": max(float(np.diff(each).max()) for each in times),
            "short": first[id(short)] - began, "long": first[id(long)] - start,
            "rate": n_written / seconds}


def drive(engine: Engine, requests: list[Request], came: list[tuple[float, Request]],
          enough: Any) -> None:
    """Serve ``requests`` until ``enough()``, and add to ``came`` which had text at what time."""
    while not enough():
        engine.between_steps(engine.step)
        for request in requests:
            if request.pieces:
                came.append((time.perf_counter(), request))
                request.pieces.clear()


if __name__ == "__main__":
    main()
