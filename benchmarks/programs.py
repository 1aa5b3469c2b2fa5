"""Runs the two programs and reads their results."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

SETTINGS: Mapping[str, list[str]] = MappingProxyType({
    "default": ["-fa", "off", "--repack", "1"], "fa": ["-fa", "on", "--repack", "1"],
    "no-repack": ["-fa", "off", "--repack", "0"], "fa, no-repack": ["-fa", "on", "--repack", "0"]})
"""llama.cpp's settings to try: a name, and llama-bench's options for it."""
N_WARM = 16
"""Prompt tokens of each sequence before llama-batched-bench times the generation."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test like :class:`unladen.measure.speed.Test`; this program doesn't import unladen."""

    n_prompt: int
    n_gen: int
    n_depth: int
    n_seqs: int = 1

    @property
    def name(self) -> str:
        """The test's name: pp512, tg32, tg32 x8, pp512 @ d4096."""
        kind = f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"
        kind += f" x{self.n_seqs}" if self.n_seqs > 1 else ""
        return f"{kind} @ d{self.n_depth}" if self.n_depth else kind

    @classmethod
    def named(cls, name: str) -> Test:
        """The test with this name, written with spaces or without. Raises ValueError."""
        found = re.fullmatch(r"(?:pp([1-9]\d*)|tg([1-9]\d*)(?:x([1-9]\d*))?)(?:@d(\d+))?",
                             name.replace(" ", ""))
        if not found:
            raise ValueError(f"{name!r} names no test: pp512, tg32, tg32x8, tg32@d4096")
        n_prompt, n_gen, n_seqs, n_depth = (int(n or 0) for n in found.groups())
        return cls(n_prompt, n_gen, n_depth, max(1, n_seqs))


def unladen(model: Path, test: Test, threads: int, *, logits: bool = False) -> float:
    """Tokens per second of one repetition, in a process of its own. ``logits``: compute all logits,
    not only the likeliest token."""
    depth = test.n_depth or (N_WARM if test.n_seqs > 1 else 0)
    (found,) = _json([sys.executable, "-m", "unladen", "bench", str(model), "--json", "-r", "1",
                      "-p", str(test.n_prompt), "-n", str(test.n_gen), "-d", str(depth),
                      "-s", str(test.n_seqs), "-t", str(threads), "-b", "512",
                      *(["--logits"] if logits else [])])
    return float(found["avg_ts"])


class Peer:
    """llama.cpp's programs, which are in one folder."""

    def __init__(self, bench: Path) -> None:
        self.bench = bench
        self.version = ""

    def run(self, model: Path, test: Test, threads: int, setting: str) -> float:
        """Tokens per second of one repetition, in a process of its own."""
        if test.n_seqs > 1:
            return self._batched(model, test, threads, setting)
        (found,) = _json([str(self.bench), "-m", str(model), "-o", "json", "-r", "1",
                          "-p", str(test.n_prompt), "-n", str(test.n_gen),
                          "-d", str(test.n_depth), "-t", str(threads), *SETTINGS[setting]])
        self.version = f"llama.cpp {found['build_commit']}"
        return float(found["avg_ts"])

    def _batched(self, model: Path, test: Test, threads: int, setting: str) -> float:
        depth = test.n_depth or N_WARM
        options = dict(zip(*[iter(SETTINGS[setting])] * 2, strict=True))
        repack = [] if options["--repack"] == "1" else ["--no-repack"]
        lines = _lines([str(self.bench.with_name("llama-batched-bench")), "-m", str(model),
                        "-c", str(test.n_seqs * (depth + test.n_gen)), "-npp", str(depth),
                        "-ntg", str(test.n_gen), "-npl", str(test.n_seqs), "-t", str(threads),
                        "-tb", str(threads), "-fa", options["-fa"], *repack,
                        "--output-format", "jsonl"])
        return float(json.loads(next(x for x in lines if x.startswith("{")))["speed_tg"])


def environment(python: str) -> dict[str, str]:
    """The variables of ``python``'s processes. ``PYTHONPATH`` may name the newer version, and isn't
    handed to another Python, which has an older one."""
    return {name: value for name, value in os.environ.items()
            if name != "PYTHONPATH" or python == sys.executable}


def machine() -> str:
    """The processor's name and the number of its hardware threads."""
    names = [line.partition(":")[2].strip()
             for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else os.uname().machine}"


def _lines(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()


def _json(command: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads("\n".join(_lines(command)))
    return found
