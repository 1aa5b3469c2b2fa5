"""Builds wheels with zig's clang and tries each: python tools/wheels [--machine aarch64] [--quick]

For each machine one wheel for Python 3.11 and one for 3.12 and later (``abi3``). Those for this
machine are installed into empty environments without a compiler, those for 64-bit Arm run under
qemu. Each must list the kernels that the processor can run and tell the story of ``story.txt``. The
tools come from the dependency group ``wheels``; Pythons are found by their names.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import arm
import checking
from building import ROOT, Machine, audit, core, sdist, wheel

MACHINES = ("x86_64", "aarch64")
ABIS = ("cp311", "abi3")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", action="append", choices=MACHINES,
                        help="only wheels for this one; may be given again")
    parser.add_argument("--abi", action="append", choices=ABIS,
                        help="only these wheels; may be given again")
    parser.add_argument("--python", action="append", metavar="VERSION",
                        help="try abi3 wheels with these (default: all of 3.12 and later here)")
    parser.add_argument("--quick", action="store_true",
                        help="for tests: only wheels that are run, with kernels at -O1, which are "
                             "slow and built in a third of the time")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "wheels")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    args.dist.mkdir(parents=True, exist_ok=True)
    n_wrong = 0
    with stage("sdist"):
        sources = sdist(args.build / "sdist")
        shutil.copy2(sources, args.dist)
    for machine in map(Machine, args.machine or MACHINES):
        with stage(f"{machine.name}: kernels"):
            library = core(machine, args.build / machine.name / "core",
                           speed="-O1" if args.quick else "-O3")
        for abi in args.abi or abis(machine, only_run=args.quick):
            wanted = ("3.11",) if abi == "cp311" else tuple(args.python or ("3.12", "3.13", "3.14"))
            found = {v: python for v in wanted if (python := find(v)) is not None}
            if not found:
                sys.exit(f"error: no Python {' or '.join(wanted)} for {abi} wheels\n"
                         "hint: put one on the path as python3.X")
            with stage(f"{machine.name}: {abi} wheel"):
                made = wheel(next(iter(found.values())), machine, library, sources,
                             args.build / machine.name / abi, abi3=abi == "abi3")
                n_wrong += report(made, "files and tags", audit(made, machine))
            n_wrong += tried(made, machine, found, args.build / machine.name)
            shutil.copy2(made, args.dist)
    return 1 if n_wrong else 0


def abis(machine: Machine, *, only_run: bool) -> tuple[str, ...]:
    """The kinds of wheels for ``machine``; with ``only_run`` those that :func:`tried` runs."""
    return ABIS[1:] if only_run and machine.name != platform.machine() else ABIS


def tried(made: Path, machine: Machine, pythons: dict[str, Path], folder: Path) -> int:
    """Try the wheel ``made`` with every Python; returns the number of faults."""
    if machine.name == platform.machine():
        n_wrong = 0
        for version, python in pythons.items():
            with stage(f"{machine.name}: Python {version}"):
                n_wrong += report(made, f"Python {version}",
                                  checking.here(python, made, folder / f"venv-{version}"))
        return n_wrong
    if "-abi3-" not in made.name:
        print(f"{made.name}: not run, its sources and flags are the abi3 one's", flush=True)
        return 0
    emulator = shutil.which(f"qemu-{machine.name}")
    if machine.name != "aarch64" or emulator is None:
        sys.exit(f"error: qemu-{machine.name} is missing\nhint: apt-get install qemu-user")
    with stage(f"{machine.name}: Python {arm.PYTHON} under qemu"):
        root = arm.root(folder / "debian")
        packages = folder / "packages"
        checking.packages(made, machine, arm.PYTHON, packages)
        n_wrong = 0
        # Without SVE: NumPy's OpenBLAS computes NaN with it under this emulator.
        for processor, levels in (("max,sve=off", None), ("cortex-a72", ["portable", "neon"])):
            run = [emulator, "-cpu", processor, "-L", str(root)]
            python = str(root / "usr" / "bin" / f"python{arm.PYTHON}")
            n_wrong += report(made, f"processor {processor}",
                              checking.emulated(run, python, packages, levels))
        return n_wrong


def find(version: str) -> Path | None:
    """The interpreter python``version``; None if it is missing or lacks venv."""
    for name in (f"python{version}", "python3"):
        found = shutil.which(name)
        if found is None:
            continue
        done = subprocess.run([found, "-c", "import ensurepip, sys, venv; "
                               "print('%d.%d' % sys.version_info[:2], sys.executable)"],
                              capture_output=True, text=True)
        version_found, _, where = done.stdout.strip().partition(" ")
        if done.returncode == 0 and version_found == version:
            return Path(where)
    return None


def report(made: Path, what: str, wrong: list[str]) -> int:
    for each in wrong:
        print(f"FAILED {made.name}, {what}: {each}", flush=True)
    if not wrong:
        print(f"{made.name}, {what}: good", flush=True)
    return len(wrong)


class stage:
    """Prints how long the work inside it took."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, *error: object) -> None:
        print(f"{self._name}: {time.monotonic() - self._start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
