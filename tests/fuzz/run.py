"""Tries mutated GGUF files: ``run.py --files 20000``.

Each file must load and run a step, or raise a typed error. None may end the process, take more than
a second of processor time, or take more than twice its size in memory beyond what a sound file
takes. The program prints the outcomes and ends with status 1 if a file was at fault; such files are
kept in ``--keep``.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from fuzz.mutations import mutated
from fuzz.seeds import Seed, seeds


@dataclass
class Run:
    """The files ``range(n_files)`` of the run ``seed``, and their outcomes."""

    folder: Path
    seed: int
    n_files: int
    kinds: Counter[str] = field(default_factory=Counter)
    faults: dict[int, str] = field(default_factory=dict)

    def share(self, first: int, step: int) -> None:
        """Try every ``step``-th file from ``first`` on. A new process starts after each one that
        ends."""
        at = first
        while at < self.n_files:
            at = self._worker(at, step)

    def _worker(self, first: int, step: int) -> int:
        """Try files from ``first`` on in one process, until it ends; returns the next file."""
        arguments = [self.folder, self.seed, first, step, self.n_files]
        environment = os.environ | {"UNLADEN_PROBE": "0", "OMP_NUM_THREADS": "1"}
        under_way = first
        with subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py")), *map(str, arguments)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=environment) as process:
            assert process.stdout is not None and process.stderr is not None
            errors: list[str] = []
            drain = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
            drain.start()
            for line in process.stdout:
                told = json.loads(line)
                if "begin" in told:
                    under_way = told["begin"]
                    continue
                self.kinds[told["kind"]] += 1
                if told["kind"] == "fault":
                    self.faults[told["end"]] = told["text"]
                under_way = told["end"] + step
            process.wait()
            drain.join()
        if process.returncode == 0:
            return self.n_files
        name = (signal.Signals(-process.returncode).name if process.returncode < 0
                else f"status {process.returncode}")
        self.kinds["fault"] += 1
        self.faults[under_way] = f"ended by {name}\n" + "".join(errors[-25:])
        return under_way + step


def run(folder: Path, found: list[Seed], seed: int, n_files: int, n_workers: int = 2) -> Run:
    """Try ``n_files`` mutations of ``found`` in ``n_workers`` processes; ``folder`` is for them."""
    (folder / "seeds.pickle").write_bytes(pickle.dumps(found))
    result = Run(folder, seed, n_files)
    threads = [threading.Thread(target=result.share, args=(i, n_workers))
               for i in range(n_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result


def rebuilt(found: list[Seed], seed: int, index: int) -> tuple[Seed, dict[str, bytes]]:
    """The file ``index`` of the run ``seed``, made again: its sound model and the mutated files."""
    rng = np.random.default_rng([seed, index])
    chosen = found[int(rng.integers(len(found)))]
    return chosen, mutated(rng, chosen.files, [raw for s in found for raw in s.files.values()])


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--recipes", type=Path, help="a folder with recipes of architectures")
    parser.add_argument("--keep", type=Path, help="a folder for the files at fault")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The sound files are the same in every run, so that a seed stands for the same mutations.
        found = seeds(folder, np.random.default_rng(0), options.recipes)
        result = run(folder, found, options.seed, options.files, options.workers)
        print(f"seed {options.seed}: {options.files} files of {len(found)} models")
        for kind, n in result.kinds.most_common():
            print(f"{n:8} {kind}")
        for index, text in sorted(result.faults.items()):
            chosen, files = rebuilt(found, options.seed, index)
            print(f"\nfile {index}, made of {chosen.name}: {text}")
            if options.keep is not None:
                (options.keep / str(index)).mkdir(parents=True, exist_ok=True)
                for each, raw in files.items():
                    (options.keep / str(index) / each).write_bytes(raw)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
