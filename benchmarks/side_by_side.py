"""Compares unladen and llama-cpp-python: the same files, alternating processes, medians, ratios.

    python benchmarks/side_by_side.py --peer /path/to/venv/bin/python --large MODEL.gguf \
        --small stories260K-f32.gguf

``--peer`` is a Python that has llama-cpp-python. It measures prompt and generation on the large
file (no sampling), tokens per second of a whole greedy generation on the small one, and the time
that ``import`` takes in addition to the interpreter's start.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

N_PROMPT, N_GEN, N_SMALL = 512, 32, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="a Python with llama-cpp-python")
    parser.add_argument("--large")
    parser.add_argument("--small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", choices=["unladen", "peer"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        json.dump((_unladen if args.worker == "unladen" else _peer)(args), sys.stdout)
        return
    samples: dict[str, dict[str, list[float]]] = {}
    for n in range(args.rounds):
        for who, python in (("unladen", sys.executable), ("peer", args.peer)):
            for name, value in _ask(python, who).items():
                samples.setdefault(name, {}).setdefault(who, []).append(value)
        print(f"round {n + 1} of {args.rounds}", file=sys.stderr)
    print("| what | unladen | llama-cpp-python | ratio |\n| --- | --- | --- | --- |")
    for name, by_who in samples.items():
        mine, theirs = (statistics.median(by_who[w]) for w in ("unladen", "peer"))
        print(f"| {name} | {mine:.1f} | {theirs:.1f} | {mine / theirs:.2f} |")


def _ask(python: str, who: str) -> dict[str, float]:
    bare, imported = _import_ms(python, "pass"), _import_ms(
        python, f"import {'unladen' if who == 'unladen' else 'llama_cpp'}")
    command = [python, __file__, *sys.argv[1:], "--worker", who]
    result: dict[str, float] = json.loads(subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env=os.environ).stdout)
    return {**result, "import, ms beyond bare Python": imported - bare}


def _import_ms(python: str, statement: str) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([python, "-c", statement], check=True)
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def _rates(feed: Callable[[int], None], one: Callable[[], None]) -> dict[str, float]:
    """Tokens per second of a prompt and of single tokens, each after a round to warm up."""
    feed(32)
    start = time.perf_counter()
    feed(N_PROMPT)
    prompt_s = time.perf_counter() - start
    one()
    start = time.perf_counter()
    for _ in range(N_GEN):
        one()
    return {f"prefill of {N_PROMPT}, t/s": N_PROMPT / prompt_s,
            f"decode of {N_GEN}, t/s": N_GEN / (time.perf_counter() - start)}


def _unladen(args: argparse.Namespace) -> dict[str, float]:
    from unladen import Model
    from unladen.measure.speed import Test, measure
    result = {}
    if args.large:
        with Model(args.large, n_threads=args.threads, context_size=1024) as model:
            for name, test in ((f"prefill of {N_PROMPT}, t/s", Test(N_PROMPT, 0, 0)),
                               (f"decode of {N_GEN}, t/s", Test(0, N_GEN, 0))):
                result[name] = measure(model, test, 1).avg_ts
    if args.small:
        with Model(args.small, n_threads=args.threads) as model:
            model.generate("Once upon a time", temperature=0.0, max_tokens=8)
            start = time.perf_counter()
            done = model.generate("Once upon a time", temperature=0.0, max_tokens=N_SMALL)
            result["greedy text, small model, t/s"] = (
                len(done.tokens) / (time.perf_counter() - start))
    return result


def _peer(args: argparse.Namespace) -> dict[str, float]:
    from llama_cpp import Llama
    result = {}
    rng = random.Random(0)
    if args.large:
        model = Llama(args.large, n_ctx=1024, n_batch=512, n_threads=args.threads,
                      n_threads_batch=args.threads, verbose=False)

        def feed(n: int) -> None:
            model.reset()
            model.eval([rng.randrange(1000) for _ in range(n)])

        result = _rates(feed, lambda: model.eval([rng.randrange(1000)]))
    if args.small:
        small = Llama(args.small, n_threads=args.threads, n_threads_batch=args.threads,
                      verbose=False)
        small.create_completion("Once upon a time", max_tokens=8, temperature=0.0)
        start = time.perf_counter()
        done = small.create_completion("Once upon a time", max_tokens=N_SMALL, temperature=0.0)
        result["greedy text, small model, t/s"] = (
            done["usage"]["completion_tokens"] / (time.perf_counter() - start))
    return result


if __name__ == "__main__":
    main()
