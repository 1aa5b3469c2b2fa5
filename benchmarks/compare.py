"""Compares the speed of unladen and llama.cpp: the same files in turn, medians, ratios, limits.

    python benchmarks/compare.py --peer /path/to/llama-bench MODEL.gguf[:TESTS] ...
    make bench PEER=/path/to/llama-bench MODELS="a.gguf:pp512,tg32,tg32t1,tg32x8 b.gguf"

A file's tests may follow its name; a number after a t is the number of threads. Otherwise the
options' tests are run. Each round runs every test once with each program. llama.cpp has several
settings (flash attention, repacked weights); for each test the one with the highest median counts,
and a setting far behind in the first round isn't tried again. ``llama-batched-bench``, which must
be beside ``llama-bench``, times several sequences. Neither program samples. unladen generates the
likeliest token, for which some heads' weights needn't all be read; llama.cpp computes all logits.
The result is a JSON file in ``--out``, by default benchmarks/results/, from which
tools/gen_history.py makes the history in the docs. ``--picture FILE`` draws the ratios as SVG.
"""

from __future__ import annotations

import argparse
import datetime
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import programs
import report
import roofline
from work import Work

RESULTS = Path(__file__).with_name("results")
FAR_BEHIND = 0.85
"""A setting slower than this share of the best setting's first result isn't tried again."""


@dataclass(frozen=True, slots=True)
class Task:
    """One test of one file."""

    model: Path
    test: programs.Test
    threads: int
    logits: bool


@dataclass(slots=True)
class Measured:
    """Tokens per second in each round: unladen's, and those of each of llama.cpp's settings."""

    task: Task
    mine: list[float] = field(default_factory=list)
    theirs: dict[str, list[float]] = field(default_factory=dict)
    limits: list[roofline.Roofline] = field(default_factory=list)
    """The machine's limits, measured around each of unladen's runs."""

    def best(self) -> tuple[str, list[float]]:
        """The peer's best setting and its rounds."""
        return max(self.theirs.items(), key=lambda item: statistics.median(item[1]))

    def row(self) -> dict[str, Any]:
        """The row for the file of results."""
        setting, rounds = self.best()
        mine, test, threads = statistics.median(self.mine), self.task.test, self.task.threads
        work = Work.of(self.task.model)
        share: dict[str, int] = {}
        if test.n_gen:
            read = work.bytes_per_step(test) / test.n_seqs
            share["read"] = self._percent(read, [limit.read_bytes_s for limit in self.limits])
            share["usual_read"] = self._percent(
                read, [limit.usual_read_bytes_s for limit in self.limits])
            share["of_bytes"] = 100 if self.task.logits else round(100 * work.share_read(test))
        if not test.n_depth:
            macs = work.macs_per_token(test)
            share["int8"] = self._percent(macs, [limit.int8_macs_s for limit in self.limits])
        return {"model": self.task.model.stem, "test": test.name, "threads": threads,
                "ratio": round(mine / statistics.median(rounds), 2), "peer_setting": setting,
                **share, "unladen_ts": mine, "peer_ts": statistics.median(rounds),
                "unladen_rounds": self.mine, "peer_rounds": self.theirs,
                "limits": [asdict(limit) for limit in self.limits]}

    def _percent(self, per_token: float, limits: list[float]) -> int:
        """Median over the rounds: shared machines change their speed from minute to minute."""
        return round(100 * statistics.median(
            mine * per_token / limit for mine, limit in zip(self.mine, limits, strict=True)))


def main() -> None:
    args = _arguments()
    results = [Measured(task) for task in _tasks(args)]
    peer = programs.Peer(args.peer)
    with tempfile.TemporaryDirectory() as folder:
        program = roofline.build(Path(folder))
        for number in range(args.rounds):
            for measured in results:
                _round(measured, peer, program, number)
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    data = {"schema": 1, "title": f"Speed beside llama.cpp{', all logits' * args.logits}",
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "machine": programs.machine(), "program": "compare.py", "peer": peer.version,
            "rounds": args.rounds,
            "limits": [asdict(_middle(n, results))
                       for n in sorted({m.task.threads for m in results}, reverse=True)],
            "columns": report.COLUMNS, "rows": [m.row() for m in results], "notes": []}
    _write(args, data)


def _middle(n_threads: int, results: list[Measured]) -> roofline.Roofline:
    """The medians of all limits that were measured with ``n_threads``."""
    found = [limit for m in results for limit in m.limits if limit.n_threads == n_threads]
    return roofline.Roofline(n_threads, *(statistics.median(getattr(r, limit.name) for r in found)
                                          for limit in fields(roofline.Roofline)[1:]))


def _round(measured: Measured, peer: programs.Peer, limits: Path, number: int) -> None:
    task = measured.task
    before = roofline.measure(limits, task.threads)
    measured.mine.append(programs.unladen(task.model, task.test, task.threads,
                                           logits=task.logits))
    measured.limits.append(before.mean(roofline.measure(limits, task.threads)))
    first = {name: rounds[0] for name, rounds in measured.theirs.items()}
    for setting in programs.SETTINGS:
        if number and first[setting] < FAR_BEHIND * max(first.values()):
            continue
        rate = peer.run(task.model, task.test, task.threads, setting)
        measured.theirs.setdefault(setting, []).append(rate)
    best = measured.best()
    print(f"  {task.model.stem} {task.test.name} t{task.threads}: {measured.mine[-1]:.1f}, "
          f"{best[0]} {best[1][-1]:.1f}", file=sys.stderr, flush=True)


def _write(args: argparse.Namespace, data: dict[str, Any]) -> None:
    print(report.table(data))
    if args.picture:
        args.picture.write_text(report.picture(data), encoding="utf-8")
    print(f"written to {report.save(args.out, data)}", file=sys.stderr)


def _tasks(args: argparse.Namespace) -> Iterator[Task]:
    for path, names in args.models:
        own = [(test, [n] if n else args.threads) for test, n in names]
        for test, threads in own or [(test, args.threads) for test in _tests(args)]:
            yield from (Task(path, test, n, args.logits) for n in threads)


def _tests(args: argparse.Namespace) -> Iterator[programs.Test]:
    for depth in args.depths:
        yield from (programs.Test(n, 0, depth) for n in args.prompts if n)
        yield from (programs.Test(0, n, depth, seqs) for n in args.gens if n for seqs in args.seqs)


def _file(text: str) -> tuple[Path, list[tuple[programs.Test, int]]]:
    """The path in ``text``, and the tests that follow it, each with its number of threads; 0 means
    those of the options."""
    path, _, names = text.rpartition(".gguf:") if ".gguf:" in text else (text, "", "")
    found = []
    for name in names.split(",") if names else ():
        own = re.search(r"t(\d+)$", name)
        try:
            found.append((programs.Test.named(name[:own.start()] if own else name),
                          int(own[1]) if own else 0))
        except ValueError as e:
            raise argparse.ArgumentTypeError(str(e)) from e
    return Path(f"{path}.gguf" if names else path), found


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=_file, metavar="MODEL.gguf[:TESTS]")
    parser.add_argument("--peer", type=Path, required=True, help="llama-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--logits", action="store_true",
                        help="unladen computes all logits, too, instead of the likeliest token")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the JSON file")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw")
    for name, default in (("threads", "2"), ("prompts", "512"), ("gens", "32"), ("depths", "0"),
                          ("seqs", "1")):
        parser.add_argument(f"--{name}", type=_numbers, default=_numbers(default),
                            help=f"by comma; {default}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
