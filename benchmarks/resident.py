"""Measures the resident memory after a file is loaded and 512 tokens of context are in use.

    python benchmarks/resident.py --peer /path/to/venv/bin/python 1b-Q4_K_M.gguf 1b-Q8_0.gguf

Each program loads a file in a process of its own, with its defaults and a context of 512 tokens. It
reads a prompt of 480 tokens and writes 32. Then the kernel reports the resident memory: all of it,
the part that belongs to no file, and the part that the interpreter had before it imported the
program and NumPy.
``--peer`` is a Python that has llama-cpp-python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("resident_worker.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peer", help="a Python with llama-cpp-python")
    args = parser.parse_args()
    print("| file | program | MB of file and KV cache | resident MB | ratio | of these no file's | "
          "of these the interpreter's |\n| --- | --- | --- | --- | --- | --- | --- |")
    for path in args.models:
        kv_bytes = 0
        for kind, python in (("ours", sys.executable), ("peer", args.peer)):
            if python:
                found = json.loads(subprocess.run(
                    [python, WORKER, kind, str(path)], check=True,
                    stdout=subprocess.PIPE).stdout)
                kv_bytes = found["kv_bytes"] or kv_bytes
                needed = path.stat().st_size + kv_bytes
                name = "unladen" if kind == "ours" else "llama-cpp-python"
                print(f"| {path.stem} | {name} | {needed / 1e6:.0f} | {found['all'] / 1e6:.0f} | "
                      f"{found['all'] / needed:.4f} | {found['anonymous'] / 1e6:.0f} | "
                      f"{found['before'] / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
