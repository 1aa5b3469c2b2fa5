"""Compiles all C++ for Windows and macOS, on Linux: python tools/wheels/gate.py [--target TARGET]

The compiler is zig's clang. It makes objects, which aren't linked, at -O0: that finds the same
mistakes in a fifth of the time. A second run compiles only what has changed. Bindings are compiled
against this Python's headers, with the target's ``pyconfig.h``. Each file that fails is named with
its first errors, and the exit code is 1. The tools come from the dependency group ``wheels``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from building import ROOT, configure, environment, program

TARGETS = {
    # The levels to compile. Those of one processor differ in flags, not in what they need from a
    # system, so a few are enough here; wheels for Linux compile all.
    "x86_64-windows-gnu": ("portable", "avx2"),
    "aarch64-windows-gnu": ("portable", "i8mm"),
    "aarch64-macos": ("portable", "i8mm"),
    "x86_64-macos": ("portable", "avx2"),
}
TOGETHER = ("x86_64-windows-gnu", "aarch64-windows-gnu")
"""Targets whose files are compiled several at a time, as builds do: headers of Windows define
macros for the files that follow. Elsewhere each is alone, and one that lacks a header is found."""
ERRORS_SHOWN = 3
"""Errors of a file that are printed at most."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", choices=sorted(TARGETS),
                        help="only this one; may be given again")
    parser.add_argument("--all-levels", action="store_true", help="all levels of each processor")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "gate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    n_failed = 0
    for target in args.target or TARGETS:
        levels = () if args.all_levels else TARGETS[target]
        n_failed += gate(target, levels, args.build / target, args.jobs)
    return 1 if n_failed else 0


def gate(target: str, levels: tuple[str, ...], folder: Path, n_jobs: int) -> int:
    """Compile everything for ``target``; returns the number of files that don't compile."""
    import nanobind
    headers = python_headers(folder / "python", is_windows="windows" in target)
    env = environment(target)
    configure(folder, env, f"UNLADEN_HEADERS={nanobind.include_dir()};{headers}",
              "UNLADEN_ISA_SPEED=-O0", f"UNLADEN_LEVELS={';'.join(levels)}",
              f"UNLADEN_TOGETHER={'ON' if target in TOGETHER else 'OFF'}")
    done = subprocess.run([program("ninja"), "-C", folder, "-k", "0", "-j", str(n_jobs)], env=env,
                          capture_output=True, text=True)
    failed = dict(failures(done.stdout))
    for name, errors in failed.items():
        print(f"FAILED {target}: {name}", *errors[:ERRORS_SHOWN], sep="\n    ")
    if done.returncode and not failed:
        sys.exit(f"error: {target}: {done.stdout}{done.stderr}")
    commands = (folder / "compile_commands.json").read_text()
    n_files = len(set(re.findall(r'"output": "(.*)"', commands)))
    print(f"{target}: {n_files - len(failed)} of {n_files} compile", flush=True)
    return len(failed)


def python_headers(folder: Path, *, is_windows: bool) -> Path:
    """A copy of this Python's headers with the target's pyconfig.h. Headers include it from their
    own folder, so all must be in one."""
    source = Path(sysconfig.get_path("include"))
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for path in source.iterdir():
        if not (is_windows and path.name == "pyconfig.h"):
            (folder / path.name).symlink_to(path)
    if is_windows:
        (folder / "pyconfig.h").symlink_to(Path(__file__).parent / "windows" / "pyconfig.h")
    return folder


def failures(output: str) -> Iterator[tuple[str, list[str]]]:
    """The objects that failed, and their errors, from ninja's ``output``."""
    pattern = re.compile(r"^FAILED: (?:\[code=\d+\] )?(\S+)(.*?)(?=^\[\d+/\d+\] |\Z)", re.M | re.S)
    for name, rest in pattern.findall(output):
        yield name, [line for line in rest.splitlines() if "error:" in line]


if __name__ == "__main__":
    sys.exit(main())
