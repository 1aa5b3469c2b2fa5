"""Which levels of kernels a processor gets."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import machines
from unladen._native import cpu as native


def test_the_portable_level_is_everywhere() -> None:
    assert machines.levels()[0] == "portable"


@pytest.mark.parametrize(("processor", "expected"), [
    ("cortex-a72", ["portable", "neon"]),
    ("neoverse-n1", ["portable", "neon", "dotprod"]),
    ("max", ["portable", "neon", "dotprod", "i8mm"]),
])
def test_levels_of_arm_processors(processor: str, expected: list[str]) -> None:
    command = shlex.split(os.environ.get(machines.COMMAND_VARIABLE, ""))
    if "-cpu" not in command:
        pytest.skip(f"{machines.COMMAND_VARIABLE} names no emulator that can be another processor")
    command[command.index("-cpu") + 1] = processor
    server = machines.Server(command)
    assert server.call("levels") == expected
    server.close()


X86_LEVELS = {
    "avx2": {"avx2", "fma", "f16c", "bmi2"},
    "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},
    "vbmi": {"avx512vbmi", "gfni"}}
"""What each level wants beside those before it, as /proc/cpuinfo calls it."""


@pytest.mark.skipif(platform.machine() != "x86_64" or not Path("/proc/cpuinfo").exists(),
                    reason="Linux says what an x86-64 processor has")
def test_levels_are_what_the_system_says() -> None:
    line = next(line for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("flags"))
    expected, flags = ["portable"], set(line.partition(":")[2].split())
    for level, wanted in X86_LEVELS.items():
        if not wanted <= flags:
            break
        expected.append(level)
    if is_emulating():
        pytest.skip("this build has one level of its own beside portable")
    assert native.levels() == expected


@pytest.mark.parametrize(("processor", "expected"), [
    ("Nehalem", ["portable"]),
    ("Haswell", ["portable", "avx2"]),
    ("Haswell,-f16c", ["portable"]),
    ("Haswell,-fma", ["portable"]),
    ("Haswell,-bmi2", ["portable"]),
    ("Haswell,-xsave", ["portable"]),
])
def test_levels_of_x86_processors(processor: str, expected: list[str]) -> None:
    """Where the system doesn't keep wide registers, without XSAVE, their instructions don't count.
    """
    emulator = shutil.which("qemu-x86_64")
    if emulator is None or platform.machine() != "x86_64" or "LD_PRELOAD" in os.environ:
        pytest.skip("no qemu-x86_64 that could be another processor")
    if is_emulating():
        pytest.skip("this build has one level of its own beside portable")
    code = ("import importlib.util as u, sys; s = u.spec_from_file_location('_native', sys.argv[1])"
            "; m = u.module_from_spec(s); s.loader.exec_module(m); print(*m.cpu.levels())")
    module = sys.modules["unladen._native"].__file__
    done = subprocess.run([emulator, "-cpu", processor, sys.executable, "-I", "-S", "-c", code,
                           str(module)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == expected, done.stderr


def is_emulating() -> bool:
    """Whether kernels of a level that this processor lacks were built, and no others."""
    return native.levels()[1:2] not in ([], ["avx2"])
