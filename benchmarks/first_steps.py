"""Times the first steps of a model with and without a file of packed weights, in turns.

    python benchmarks/first_steps.py 1b-Q4_K_M.gguf

Each run is an ``unladen run``: it loads a file, reads a prompt and writes a few tokens. The packed
copy is made before the first round, in a folder that is removed at the end. The output has medians
and ratios: how many times as fast the run is with the copy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = ("seconds of all", "prompt, tokens a second", "then written, tokens a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--words", type=int, default=256, help="of the prompt")
    parser.add_argument("--tokens", type=int, default=17, help="written")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print("| file | | without | with the copy | ratio |\n| --- | --- | --- | --- | --- |")
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            run(model, args, folder)
            plain, packed = zip(*((run(model, args, None), run(model, args, folder))
                                  for _ in range(args.rounds)), strict=True)
        for i, name in enumerate(ROWS):
            without, kept = (statistics.median(one[i] for one in runs) for runs in (plain, packed))
            ratio = kept / without if i else without / kept
            print(f"| {model.stem} | {name} | {without:.2f} | {kept:.2f} | {ratio:.2f} |",
                  flush=True)


def run(model: Path, args: argparse.Namespace, folder: str | None) -> tuple[float, float, float]:
    """The values for ROWS from one process; the packed copy is in ``folder``, None: without."""
    command = [sys.executable, "-m", "unladen", "run", str(model), "one " * args.words,
               "-n", str(args.tokens), "-t", str(args.threads), "--temp", "0", "--no-speculate",
               "--json", *(["--packed-cache"] if folder else [])]
    environment = {**os.environ, **({"UNLADEN_PACKED_CACHE": folder} if folder else {})}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    timings = json.loads(done.stdout)["timings"]
    n_after = timings["n_completion"] - 1
    return (seconds, timings["n_prompt"] / timings["prompt_s"], n_after / timings["completion_s"])


if __name__ == "__main__":
    main()
