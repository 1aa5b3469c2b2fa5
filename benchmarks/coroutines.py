"""Coroutines that share a model: tokens a second, requests sent back, and tokens computed.

    python benchmarks/coroutines.py 1b-Q4_K_M.gguf --before /path/to/older/venv/bin/python

Each run is a process of its own: ``--coroutines`` coroutines await ``Model.agenerate`` at once.
Each has a prompt of ``--prompt`` tokens, and writes ``--write`` tokens. In turns, ``--rounds``
times: with a small context, with one in which all of them have room together, and with a cache for
six of them. ``--before`` is a Python with an older version, which runs the same. A request is sent
back where it has to make room in the cache for others, and is computed again from its beginning.

``--shared`` tokens of each prompt are the same in all: 0 by default.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from programs import environment

TOKEN_BLOCK = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--before", type=Path, help="a Python with an older version")
    parser.add_argument("--coroutines", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=125)
    parser.add_argument("--write", type=int, default=128)
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="raw results go there")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(asyncio.run(one(args, json.loads(args.run)))))
        return
    each = -(-(args.prompt + args.write) // TOKEN_BLOCK) * TOKEN_BLOCK
    large, six = args.coroutines * each, 6 * each
    runs: dict[str, tuple[str, dict[str, int]]] = {}
    if args.before:
        runs[f"before, context {args.context}"] = "before", {"context_size": args.context}
        runs[f"before, context {large}"] = "before", {"context_size": large}
        runs["before, room for 6"] = "before", {"context_size": six}
        runs["before, 8 coroutines"] = "before", {"context_size": args.context, "n": 8}
    runs[f"now, context {args.context}"] = "now", {"context_size": args.context}
    runs["now, room for 6"] = "now", {"context_size": six, "cache_tokens": six}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, (which, wishes) in runs.items():
            python = str(args.before) if which == "before" else sys.executable
            result = subprocess.run([python, __file__, *sys.argv[1:], "--run", json.dumps(wishes)],
                                    check=True, stdout=subprocess.PIPE, env=environment(python))
            found[name].append(json.loads(result.stdout))
            print(name, found[name][-1], file=sys.stderr, flush=True)
    print("| run | tokens/s | tokens per CPU second | sent back | tokens computed | "
          "most often one request |\n| --- | --- | --- | --- | --- | --- |")
    for name, results in found.items():
        cells = (statistics.median(r[key] for r in results)
                 for key in ("rate", "rate_cpu", "sent_back", "computed", "most"))
        print(f"| {name} | {' | '.join(f'{cell:.0f}' for cell in cells)} |")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


class SentBack(logging.Handler):
    """Counts requests that make room for others."""

    n = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.n += record.getMessage().startswith("the cache is full")


async def one(args: argparse.Namespace, wishes: dict[str, int]) -> dict[str, float]:
    """One run: new tokens a second, and a CPU second, which a busy machine changes less; how many
    requests were sent back, how many tokens all steps computed, and how often the request was begun
    that was begun most often."""
    from unladen import Model
    counter = SentBack()
    logging.getLogger("unladen").addHandler(counter)
    logging.getLogger("unladen").setLevel("INFO")
    n = wishes.pop("n", args.coroutines)
    sizes: dict[str, Any] = wishes
    rng = np.random.default_rng(1)
    shared = rng.integers(1000, 100000, args.shared).tolist()
    prompts = [shared + rng.integers(1000, 100000, args.prompt - args.shared).tolist()
               for _ in range(n)]
    with Model(args.model, devices=["cpu"], speculate=False, **sizes) as model:
        model.generate([5] * 40, max_tokens=8, ignore_eos=True)
        plan = model.engine.plan
        run, batch, computed, begun = plan.run, plan.batch, 0, dict.fromkeys(range(n), 0)
        first = {tuple(prompt[args.shared:args.shared + 4]): i for i, prompt in enumerate(prompts)}

        def counting() -> None:
            nonlocal computed
            computed += batch.n_tokens
            for s in range(batch.n_seqs):
                at = batch.q_start[s]
                row = at + args.shared - batch.positions[at]
                if at <= row and row + 4 <= batch.q_start[s + 1]:
                    key = tuple(batch.tokens[row:row + 4].tolist())
                    if key in first:
                        begun[first[key]] += 1
            run()
        plan.run = counting  # type: ignore[method-assign]
        start, start_cpu = time.perf_counter(), time.process_time()
        done = await asyncio.gather(*(model.agenerate(
            p, max_tokens=args.write, temperature=0.0, ignore_eos=True) for p in prompts))
        seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    assert all(len(each.tokens) == args.write for each in done)
    return {"rate": n * args.write / seconds, "sent_back": counter.n, "computed": computed,
            "most": max(begun.values()), "seconds": seconds, "rate_cpu": n * args.write / cpu}


if __name__ == "__main__":
    main()
