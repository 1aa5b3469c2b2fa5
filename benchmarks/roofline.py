"""Measures the machine's limits with a small C++ program that is independent of unladen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bytes read from memory and 8-bit multiply-adds, both per second, with ``n_threads``: the best
    of several passes. ``usual_read_bytes_s`` is the median of the passes that read."""

    n_threads: int
    read_bytes_s: float
    usual_read_bytes_s: float
    int8_macs_s: float

    def mean(self, other: Roofline) -> Roofline:
        """The mean of these limits and of ``other``, which were measured later."""
        return Roofline(self.n_threads, (self.read_bytes_s + other.read_bytes_s) / 2,
                        (self.usual_read_bytes_s + other.usual_read_bytes_s) / 2,
                        (self.int8_macs_s + other.int8_macs_s) / 2)


def build(folder: Path) -> Path:
    """The program, compiled for this machine; exits where there is no C++ compiler."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("error: the limits are measured by a C++ program\nhint: install g++")
    program = folder / "roofline"
    subprocess.run([compiler, "-O3", "-march=native", "-std=c++20", "-pthread",
                    str(Path(__file__).with_suffix(".cc")), "-o", str(program)], check=True)
    return program


def measure(program: Path, n_threads: int) -> Roofline:
    """Run the program of :func:`build` once, which takes a few seconds."""
    found = json.loads(subprocess.run([str(program), str(n_threads)], check=True,
                                      stdout=subprocess.PIPE).stdout)
    return Roofline(n_threads, **found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(measure(build(Path(folder)), os.cpu_count() or 1))
