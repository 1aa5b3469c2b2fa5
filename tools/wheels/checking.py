"""Checks that wheels install without a compiler, find their kernels and tell the story."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from building import Machine

STORY = Path(__file__).with_name("story.txt")
COMMAND = ("run", "tiny", "Once upon a time", "--temp", "0")
LEVELS = "from unladen._native import cpu; print(*cpu.levels())"
X86_LEVELS = {
    "avx2": {"avx2", "fma", "f16c", "bmi2"},
    "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},
    "vbmi": {"avx512vbmi", "gfni"}}
"""The flags of /proc/cpuinfo that each level needs in addition to those of the level before."""
ARM_LEVELS = "import ctypes; has = ctypes.CDLL(None).getauxval; print(has(16), has(26))"
HWCAP_ASIMDDP, HWCAP2_I8MM = 20, 13
GLIBC = ("2_31", "2_28", "2_27", "2_17")
"""The glibc versions in the names of the dependencies' wheels that may be taken for another
machine, the newest first: llguidance needs 2.31."""


def installed(python: Path, wheel: Path, folder: Path) -> Path:
    """Install ``wheel`` in a fresh environment of ``python``; returns the path of its program."""
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet",
                    "--only-binary=:all:", wheel], env=bare(folder), check=True)
    return folder / "bin" / "unladen"


def bare(folder: Path) -> dict[str, str]:
    """Environment variables whose path has only the environment itself: no compiler, no shell."""
    kept = {name: value for name, value in os.environ.items()
            if name.startswith(("PIP_", "SSL_", "REQUESTS_", "CURL_")) or "PROXY" in name.upper()}
    return kept | {"PATH": str(folder / "bin"), "HOME": str(folder), "LANG": "C.UTF-8"}


def here(python: Path, wheel: Path, folder: Path) -> list[str]:
    """The faults of ``wheel`` on this machine."""
    program = installed(python, wheel, folder)
    return examined([str(program)], [str(folder / "bin" / "python")], bare(folder), x86_levels())


def emulated(emulator: list[str], python: str, packages: Path, expected: list[str] | None
             ) -> list[str]:
    """The faults of the packages in ``packages`` under an ``emulator``. ``expected``: the levels
    that must be found; None reads them from the emulated processor's features."""
    env = {"PATH": "/usr/bin", "HOME": str(packages), "LANG": "C.UTF-8",
           "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    run = [*emulator, python]
    return examined([*run, "-m", "unladen"], run, env,
                    arm_levels(run, env) if expected is None else expected)


def examined(command: list[str], python: list[str], env: dict[str, str], levels: list[str]
             ) -> list[str]:
    """The faults of an installed wheel; ``levels`` are those that it must find."""
    wrong = []
    done = subprocess.run([*python, "-c", LEVELS], env=env, capture_output=True, text=True)
    if done.stdout.split() != levels:
        wrong.append(f"levels: {done.stdout or done.stderr} instead of {levels}")
    done = subprocess.run([*command, *COMMAND], env=env, capture_output=True, text=True)
    if done.stdout != STORY.read_text():
        wrong.append(f"its story: {done.stdout}{done.stderr}")
    elif done.stderr:
        wrong.append(f"it says on the way: {done.stderr}")
    return wrong


def x86_levels() -> list[str]:
    """The levels that this processor can run, by its flags."""
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            break
    levels = ["portable"]
    for level, wanted in X86_LEVELS.items():
        if not wanted <= flags:
            break
        levels.append(level)
    return levels


def arm_levels(python: list[str], env: dict[str, str]) -> list[str]:
    """The levels that the emulated processor can run, by its features."""
    done = subprocess.run([*python, "-c", ARM_LEVELS], env=env, check=True, capture_output=True,
                          text=True)
    first, second = (int(n) for n in done.stdout.split())
    levels = ["portable", "neon"]
    if first >> HWCAP_ASIMDDP & 1:
        levels.append("dotprod")
        if second >> HWCAP2_I8MM & 1:
            levels.append("i8mm")
    return levels


def packages(wheel: Path, machine: Machine, python: str, folder: Path) -> None:
    """Put ``wheel`` and its dependencies, built for another ``machine``, into ``folder``."""
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:",
                    "--upgrade", "--target", folder, "--implementation", "cp",
                    "--python-version", python, "--abi", f"cp{python.replace('.', '')}",
                    "--abi", "abi3", "--abi", "none",
                    *(x for glibc in GLIBC
                      for x in ("--platform", f"manylinux_{glibc}_{machine.name}")), wheel],
                   check=True)
