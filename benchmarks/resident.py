"""Memory that stays resident after a file is loaded and 512 tokens of context are in use.

    python benchmarks/resident.py --peer /path/to/venv/bin/python 1b-Q4_K_M.gguf 1b-Q8_0.gguf

Each program loads a file in a process of its own, with its defaults and a context of 512 tokens,
reads a prompt of 480 and writes 32. Then the kernel is asked what is resident: all of it, what
belongs to no file, and what the interpreter had when it had imported the program. ``--peer`` is a
Python that has llama-cpp-python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

N_PROMPT, N_GEN = 480, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--peer", help="a Python with llama-cpp-python")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        kind, path = args.worker
        json.dump({"ours": _ours, "peer": _peer}[kind](path), sys.stdout)
        return
    print("| file | program | MB of file and KV cache | resident MB | ratio | of these no file's | "
          "of these the interpreter's |\n| --- | --- | --- | --- | --- | --- | --- |")
    for path in args.models:
        kv_bytes = 0
        for kind, python in (("ours", sys.executable), ("peer", args.peer)):
            if python:
                found = json.loads(subprocess.run(
                    [python, __file__, "--worker", kind, str(path)], check=True,
                    stdout=subprocess.PIPE).stdout)
                kv_bytes = found.get("kv_bytes", kv_bytes)
                needed = path.stat().st_size + kv_bytes
                name = "unladen" if kind == "ours" else "llama-cpp-python"
                print(f"| {path.stem} | {name} | {needed / 1e6:.0f} | {found['all'] / 1e6:.0f} | "
                      f"{found['all'] / needed:.3f} | {found['anonymous'] / 1e6:.0f} | "
                      f"{found['before'] / 1e6:.0f} |", flush=True)


def _resident() -> tuple[int, int]:
    """Bytes, and those that belong to no file."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "RssAnon"))


def _measure(work: Callable[[], int | None]) -> dict[str, int]:
    before, _ = _resident()
    kv_bytes = work()
    everything, anonymous = _resident()
    found = {"before": before, "all": everything, "anonymous": anonymous}
    return found if kv_bytes is None else {**found, "kv_bytes": kv_bytes}


def _ours(path: str) -> dict[str, int]:
    import numpy  # noqa: F401  # as both need it

    from unladen import Model
    kept = []

    def work() -> int:
        model = Model(path, devices=["cpu"], context_size=N_PROMPT + N_GEN)
        kept.append(model)
        model.generate(list(range(100, 100 + N_PROMPT)), max_tokens=N_GEN, temperature=0.0,
                       ignore_eos=True)
        return sum(b.nbytes for kv in model.engine.plan.kv.values() for b in (kv.k, kv.v))
    return _measure(work)


def _peer(path: str) -> dict[str, int]:
    from llama_cpp import Llama
    kept = []

    def work() -> None:
        model = Llama(path, n_ctx=N_PROMPT + N_GEN, verbose=False)
        kept.append(model)
        for i, _ in enumerate(model.generate(list(range(100, 100 + N_PROMPT)), temp=0.0), 1):
            if i == N_GEN:
                break
    return _measure(work)


if __name__ == "__main__":
    main()
