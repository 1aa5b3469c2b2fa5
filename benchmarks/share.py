"""Measures which share of memory's bandwidth a decode step uses: steps and plain reads in turns.

    python benchmarks/share.py 1b-Q4_K_M.gguf 1b-Q8_0.gguf

The speed of a shared machine's memory changes from one second to the next. So a step is compared
with :mod:`roofline`'s loop just before and after it, which reads about as many bytes with as many
threads. The output has the median and the quartiles of the shares, and the share of the fastest
read of any turn.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import IO

import roofline
from programs import Test
from work import Work

from unladen import Model
from unladen.measure import speed

N_READ = 512 << 20
"""Bytes that one pass of the loop reads."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=8, help="of a turn")
    parser.add_argument("--turns", type=int, default=40)
    args = parser.parse_args()
    print("| file | threads | turns | GB/s of the loop | of steps | share | quarters "
          f"| of the best turn |\n|{' --- |' * 8}")
    with tempfile.TemporaryDirectory() as folder:
        program = roofline.build(Path(folder))
        for path in args.models:
            print(_row(path, program, args), flush=True)


def _row(path: Path, program: Path, args: argparse.Namespace) -> str:
    test = speed.Test(0, args.tokens, 0)
    n_bytes = args.tokens * Work.of(path).bytes_per_step(Test(0, args.tokens, 0))
    n_passes = max(1, round(n_bytes / N_READ))
    loop: list[float] = []
    steps: list[float] = []
    with Model(path, devices=["cpu"], n_threads=args.threads, context_size=512) as model, \
            subprocess.Popen([program, str(args.threads), "turns"], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin and reader.stdout
        reader.stdout.readline()  # what it measures at the start
        speed.measure(model, test, 1)
        loop.append(_read(reader.stdin, reader.stdout, n_passes))
        for _ in range(args.turns):
            steps.append(1e9 * n_bytes / speed.measure(model, test, 1).samples_ns[0])
            loop.append(_read(reader.stdin, reader.stdout, n_passes))
        reader.stdin.close()
    shares = [2 * mine / (before + after)
              for mine, before, after in zip(steps, loop, loop[1:], strict=False)]
    low, middle, high = statistics.quantiles(shares, n=4)
    usual = statistics.median(steps)
    return (f"| {path.stem} | {args.threads} | {args.turns} | {statistics.median(loop) / 1e9:.1f} "
            f"| {usual / 1e9:.1f} | {100 * middle:.0f} % | {100 * low:.0f} to {100 * high:.0f} % "
            f"| {100 * usual / max(loop):.0f} % |")


def _read(into: IO[str], out: IO[str], n_passes: int) -> float:
    """Bytes per second that the loop reads in ``n_passes``."""
    into.write(f"{n_passes}\n")
    into.flush()
    return float(out.readline())


if __name__ == "__main__":
    main()
