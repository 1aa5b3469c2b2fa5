"""Two installed versions of unladen beside each other: the same bits, and how fast.

    python benchmarks/versions.py bits --before /path/to/venv/bin/python MODEL.gguf ...
    python benchmarks/versions.py bits --before PYTHON --archs ../shared/archs
    python benchmarks/versions.py speed --before PYTHON MODEL.gguf --tests pp512,tg32,tg32x8

The Python that runs this has the newer version; ``PYTHONPATH`` may name it and isn't handed to the
older one. ``bits`` compares what both compute on the CPU, for each file and in three ways: a text
in one step, the text in steps of seven tokens, and greedy generation. It compares every bit of
every logit or embedding, and exits with 1 where one differs.
``--archs`` builds a tiny file for each recipe in that folder.

``speed`` runs both in turns, a process for each run, and prints medians and their ratios: the tests
of ``unladen bench``, the milliseconds of ``import unladen``, and those of an ``unladen run`` up to
its first token.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from programs import Test, environment

N_TOKENS, N_GENERATED = 230, 90
"""Tokens of the text that ``bits`` computes, and those that it lets a model write, less where a
context is shorter. They fill several blocks of the cache (32 tokens each), so that layers that see
a window of 32 tokens, as those of most recipes do, give blocks back."""

N_STARTS = 5
"""Starts of a process in each round of ``speed``; starts are short, so their medians need more."""

WORKER = """
import hashlib, json, sys, zlib
import numpy as np
from unladen import Model
from unladen.errors import InvalidArgument
for path in sys.stdin.read().split("\\n"):
    found = {}
    try:
        with Model(path, devices=["cpu"], n_threads=2) as model:
            rng = np.random.default_rng(zlib.crc32(path.encode()))
            n, n_made = min(N_TOKENS, model.context_size), min(N_GENERATED, model.context_size // 2)
            ids = [int(i) for i in rng.integers(3, model.tokenizer.n_vocab, n)]
            is_encoder = "embeddings" in model.architecture.build().outputs
        for name, size in (("whole", 512), ("in sevens", 7)):
            with Model(path, devices=["cpu"], n_threads=2, batch_size=size) as model:
                rows = model.embed(ids, pooling="none") if is_encoder else model.logits(ids)
                found[name] = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
        if not is_encoder:  # guesses would make steps of sizes that depend on the clock
            with Model(path, devices=["cpu"], n_threads=2, speculate=False) as model:
                prompt = ids[:max(1, n - n_made)]
                made = model.generate(prompt, max_tokens=n_made, temperature=0.0, logprobs=3)
                found["generated"] = repr((made.tokens, made.logprobs))
    except InvalidArgument as error:  # a model that continues no text, or nothing was computed
        found["generated" if "in sevens" in found else "error"] = type(error).__name__
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error.args[0]}"
    print(json.dumps([path, found]), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bits", "speed"])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--before", required=True, help="a Python that has the older version")
    parser.add_argument("--archs", type=Path, help="a folder of recipes (bits)")
    parser.add_argument("--tests", default="pp512,tg32,tg32x8", help="as compare.py names them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_intermixed_args()
    if args.what == "bits":
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(bits(args, [*args.models, *built(args.archs, Path(folder))]))
    speed(args)


def built(archs: Path | None, folder: Path) -> Iterator[Path]:
    """A file for each recipe in ``archs``, made in ``folder``."""
    if archs is None:
        return
    spec = importlib.util.spec_from_file_location("fixture", archs / "fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    for recipe in sorted(archs.glob("*.json")):
        path = folder / f"{recipe.stem}.gguf"
        fixture.build(recipe, path)
        yield path


def bits(args: argparse.Namespace, models: list[Path]) -> int:
    """Prints what differs; the exit status."""
    before, now = (answers(python, models) for python in (args.before, sys.executable))
    n_same, wrong, stopped = 0, 0, 0
    for path, old in before.items():
        name, new = Path(path).stem, now[path]
        if "error" in old and old == new:
            print(f"{name}: both stop with {new['error']}")
            stopped += 1
            continue
        differs = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
        n_same += not differs
        wrong += bool(differs)
        if differs:
            print(f"{name} differs: {', '.join(differs)} {new.get('error', '')}")
    print(f"{n_same} of {len(before)} files give the same bits, {wrong} do not; "
          f"with {stopped} both versions stop in the same way")
    return int(wrong > 0 or not n_same)


def answers(python: str, models: list[Path]) -> dict[str, dict[str, str]]:
    """By path, what the version of ``python`` computes."""
    code = WORKER.replace("N_TOKENS", str(N_TOKENS)).replace("N_GENERATED", str(N_GENERATED))
    done = subprocess.run([python, "-c", code], input="\n".join(map(str, models)), text=True,
                          stdout=subprocess.PIPE, check=True, env=environment(python))
    return dict(json.loads(line) for line in done.stdout.splitlines())


def speed(args: argparse.Namespace) -> None:
    """Prints a table of medians."""
    samples: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(args.rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for which in order:
            for name, value in measured((args.before, sys.executable)[which], args):
                samples.setdefault(name, ([], []))[which].append(value)
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    print("| what | before | now | now / before |\n| --- | --- | --- | --- |")
    for name, pair in samples.items():
        before, now = map(statistics.median, pair)
        print(f"| {name} | {before:.1f} | {now:.1f} | {now / before:.3f} |")


def measured(python: str, args: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Each row of the table, once; of the starts the medians of a few."""
    yield "import unladen, ms", statistics.median(
        started([python, "-c", "import unladen"]) for _ in range(N_STARTS))
    for model in args.models:
        yield f"{model.stem}: first token, ms", statistics.median(
            started([python, "-m", "unladen", "run", str(model), "Hello", "-n", "1"])
            for _ in range(N_STARTS))
        for name in args.tests.split(","):
            yield f"{model.stem}: {name}, tokens/s", rate(python, model, Test.named(name),
                                                        args.threads)


def started(command: list[str]) -> float:
    """Milliseconds that ``command`` takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment(command[0]))
    return 1e3 * (time.perf_counter() - start)


def rate(python: str, model: Path, test: Test, threads: int) -> float:
    """Tokens per second of one repetition, in a process of its own."""
    depth = test.n_depth or (16 if test.n_seqs > 1 else 0)
    done = subprocess.run(
        [python, "-m", "unladen", "bench", str(model), "--json", "-r", "1", "-p",
         str(test.n_prompt), "-n", str(test.n_gen), "-d", str(depth), "-s", str(test.n_seqs),
         "-t", str(threads), "-b", "512"], check=True, capture_output=True, text=True,
        env=environment(python))
    (found,) = json.loads(done.stdout)
    result: dict[str, Any] = found
    return float(result["avg_ts"])


if __name__ == "__main__":
    main()
