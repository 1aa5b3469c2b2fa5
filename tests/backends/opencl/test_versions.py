"""Versions of OpenCL C: what a driver says, and what its compiler is asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from unladen.backends._gpu.binaries import VARIABLE
from unladen.backends.opencl import device, driver, platforms
from unladen.backends.opencl.backend import OpenClBackend
from unladen.backends.opencl.building import options_of

Rng = np.random.Generator
TO_THREE = ["1.0", "1.1", "1.2", "3.0"]
SUBGROUPS, DOT = "cl_khr_subgroups", "cl_khr_integer_dot_product"
FEATURE = "__opencl_c_subgroups"


@pytest.fixture
def fresh() -> Iterator[None]:
    """Devices are looked for again, and again afterwards."""
    platforms.found.cache_clear()
    yield
    platforms.found.cache_clear()


def named(name: str, version: str) -> bytes:
    """cl_name_version of cl.h."""
    major, minor = map(int, version.split("."))
    return struct.pack("<I64s", major << 22 | minor << 12 | 7, name.encode())


@pytest.mark.parametrize(("version", "plain", "listed", "names", "there", "options"), [
    # PoCL since 5, and others that say 1.2 for the sake of old programs
    ("3.0 PoCL", "1.2", TO_THREE, [SUBGROUPS], {"subgroups"}, "-w -cl-std=CL3.0"),
    ("3.0 PoCL", "1.2", TO_THREE, [SUBGROUPS, DOT], {"subgroups", "int_dot"},
     "-w -cl-std=CL3.0 -DHAS_INT_DOT"),
    ("3.0 NEO", "1.2", TO_THREE, [FEATURE], {"subgroups"}, "-w -cl-std=CL3.0"),
    ("3.0", "3.0", ["1.2", "2.0", "3.0"], [SUBGROUPS], {"subgroups"}, "-w -cl-std=CL3.0"),
    ("3.0 CUDA", "1.2", TO_THREE, [], set(), "-w -cl-std=CL1.2"),
    ("2.1", "2.0", None, [SUBGROUPS, DOT], {"subgroups"}, "-w -cl-std=CL2.0"),
    ("2.1", "2.0", ["3.0"], [SUBGROUPS], {"subgroups"}, "-w -cl-std=CL2.0"),
    ("1.2", "1.2", None, [SUBGROUPS, DOT], set(), "-w -cl-std=CL1.2")])
def test_a_compiler_is_asked_for_a_version_that_it_takes(
        fresh: None, monkeypatch: pytest.MonkeyPatch, version: str, plain: str,
        listed: Sequence[str] | None, names: Sequence[str], there: set[str], options: str) -> None:
    answers = {driver.DEVICE_VERSION: f"OpenCL {version} \0".encode(),
               driver.DEVICE_OPENCL_C_VERSION: f"OpenCL C {plain} \0".encode(),
               driver.DEVICE_OPENCL_C_ALL_VERSIONS: b"".join(named("OpenCL C", v)
                                                             for v in listed or ()),
               driver.DEVICE_OPENCL_C_FEATURES: b"".join(named(n, "3.0") for n in names
                                                         if n == FEATURE),
               driver.DEVICE_SINGLE_FP_CONFIG: (0x3F).to_bytes(8, "little"),
               driver.DEVICE_EXTENSIONS: " ".join(n for n in names if n != FEATURE).encode()}
    real = driver.info

    def info(function: str, of: Any, what: int) -> bytes:
        return answers[what] if what in answers else real(function, of, what)
    monkeypatch.setattr(driver, "info", info)
    found = platforms.found()[0]
    assert not found.refused and found.available == there
    assert options_of(found, found.available) == options
    assert options_of(found, frozenset()) == "-w -cl-std=CL1.2"
    composed = options_of(found, frozenset({"int_dot"}))
    assert composed == (options if "int_dot" in there else "-w -cl-std=CL1.2")
    answers[driver.DEVICE_SINGLE_FP_CONFIG] = (0xBF).to_bytes(8, "little")
    platforms.found.cache_clear()
    assert options_of(platforms.found()[0], found.available) == (
        f"{options} -cl-fp32-correctly-rounded-divide-sqrt")


def test_answers_with_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = named("OpenCL C", "1.2") + named("x" * 64, "3.1")
    monkeypatch.setattr(driver, "info", lambda *asked: raw)
    assert driver.named_versions(None, 0) == [("OpenCL C", (1, 2)), ("x" * 64, (3, 1))]
    monkeypatch.setattr(driver, "info", lambda *asked: b"")
    assert not driver.named_versions(None, 0)


def test_texts_are_of_the_newest_version_too(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels without features are compiled as OpenCL C 1.2, which the other tests run."""
    if platforms.usable()[0].version < (3, 0):
        pytest.skip("the driver takes no OpenCL C 3.0")
    monkeypatch.setenv(VARIABLE, "")
    asked = []

    def newest(*_: object) -> str:
        asked.append(1)
        return "-w -cl-std=CL3.0"
    monkeypatch.setattr(device, "options_of", newest)
    backend = OpenClBackend()
    for quant in ("F16", "Q4_K", "IQ2_S"):
        m = Maker(rng, 3)
        case = m.case("linear", m.input("T", 256),
                      weights={"w0": m.weight("w0", 70, 256, quant=quant)})
        running.check(case, running.Bench(backend, case).run(), precise=False, what=quant)
    assert asked
