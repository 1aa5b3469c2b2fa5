"""Compares unladen and llama.cpp at decoding while another program keeps a core busy.

    python benchmarks/neighbour.py 1b-Q4_K_M.gguf --peer /path/to/llama-bench

Each run is a process of its own, in turns, next to ``--busy`` processes that only count. The output
has medians of tokens per second, also without busy processes and with one thread fewer, and the
ratio to the best of llama.cpp's settings.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from programs import SETTINGS, Peer, Test, unladen

COUNT = "n = 0\nwhile True: n += 1"
"""The program of a busy process."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", type=Path, help="llama-bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", type=int, default=1, help="programs beside it")
    args = parser.parse_args()
    test, peer = Test(0, args.tokens, 0), Peer(args.peer) if args.peer else None
    rates: dict[str, list[float]] = {}

    def take(name: str, n_busy: int, setting: str = "", n_fewer: int = 0) -> None:
        with busy(n_busy):
            rate = (peer.run(args.model, test, args.threads, setting) if peer and setting
                    else unladen(args.model, test, args.threads - n_fewer))
        rates.setdefault(name, []).append(rate)
        print(f"{name}: {rate:.1f}", file=sys.stderr)

    settings = SETTINGS if peer else {}
    for _ in range(args.rounds):
        take("unladen alone", 0)
        take("unladen", args.busy)
        if args.threads > 1:
            take("unladen, a thread fewer", args.busy, n_fewer=1)
        for setting in settings:
            take(setting, args.busy, setting)
    found = {name: statistics.median(each) for name, each in rates.items()}
    for name, rate in found.items():
        print(f"{name}: {rate:.1f} t/s")
    print(f"kept of its own speed: {found['unladen'] / found['unladen alone']:.2f}")
    if settings:
        best = max(settings, key=found.__getitem__)
        print(f"ratio to llama.cpp ({best}): {found['unladen'] / found[best]:.2f}")


@contextlib.contextmanager
def busy(n: int) -> Iterator[None]:
    """Runs ``n`` processes that keep a core busy each, until the block ends."""
    others = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(n)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main()
