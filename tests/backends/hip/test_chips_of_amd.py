"""What chips can do, and what the runtime of this machine says, if there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from unladen.backends import backend_of
from unladen.backends._gpu.cuda_like.vendor import Chip
from unladen.backends.hip import has_hardware
from unladen.backends.hip.driver import CHIP, HIP, chip_named


@pytest.mark.parametrize(("name", "has_dot"), [
    ("gfx900", False), ("gfx906:sramecc+:xnack-", True), ("gfx90a:sramecc+:xnack-", True),
    ("gfx90c:xnack-", False), ("gfx942", True), ("gfx1010:xnack-", False), ("gfx1030", True),
    ("gfx904", False), ("gfx950", True), ("gfx1100", True), ("gfx1103", True), ("gfx1151", True),
    ("gfx1201", True)])
def test_abilities(name: str, has_dot: bool) -> None:
    found = chip_named(name)
    assert isinstance(found, Chip)
    assert (found.name, "int_dot" in found.abilities) == (name, has_dot)
    assert found.abilities <= set(HIP.abilities)


CHIPS = ("gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx940",
         "gfx941", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030",
         "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1100", "gfx1101",
         "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1200", "gfx1201")
"""Chips since Vega, as LLVM names them."""
DOT = re.compile(r"FN int dot_i8\(.*?\n\}\n", re.S)


def test_products_of_int8_compile_for_every_chip(tmp_path: Path) -> None:
    """By one instruction where the chip has it. A compiler skips chips that it doesn't know."""
    clang = next(filter(None, map(shutil.which, ("clang-19", "clang-18", "clang-17", "clang-16",
                                                 "clang-15", "clang"))), None)
    if clang is None:
        pytest.skip("needs clang, of version 15 for chips since gfx11")
    found = DOT.search(HIP.port.read_text())
    assert found is not None
    text = tmp_path / "dot.hip"
    text.write_text("typedef unsigned int u32;\n#define FN extern \"C\" "
                    f"__attribute__((device, used))\n{found[0]}")
    n_known = 0
    for name in CHIPS:
        done = subprocess.run(
            [clang, "-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-O1", "-S",
             "-emit-llvm", f"--offload-arch={name}", "-o", "-", str(text)],
            capture_output=True, text=True)
        if re.search("(invalid|unsupported|unknown).*(target ID|gpu arch|CUDA gpu)", done.stderr):
            continue
        assert done.returncode == 0, f"{name}: {done.stderr}"
        chip = chip_named(name)
        assert isinstance(chip, Chip)
        uses = re.search(r"call i32 @llvm\.amdgcn\.su?dot4\(", done.stdout) is not None
        assert uses == ("int_dot" in chip.abilities), name
        n_known += 1
    print(f"{clang}: {n_known} of {len(CHIPS)} chips")
    if not n_known:
        pytest.skip(f"{clang} knows none of AMD's chips")


def test_old_chips() -> None:
    assert chip_named("gfx803") == "its chip gfx803 is older than Vega (gfx900)"


def test_the_chip_among_properties() -> None:
    data = b"AMD Instinct MI250X\0" + bytes(300) + b"gfx90a:sramecc+:xnack-\0\1\2\3" + bytes(40)
    found = CHIP.search(data)
    assert found is not None and found[0] == b"gfx90a:sramecc+:xnack-"


def test_only_where_it_is_named() -> None:
    assert not has_hardware()
    assert backend_of("hip").devices() or backend_of("hip").why_none()
