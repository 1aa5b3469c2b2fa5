"""What a compiler does is kept; what keeps it from being tried isn't."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stub_driver.stub import Stub, at_rest, vendor
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.cuda_like import trial
from unladen.backends._gpu.cuda_like.compiler import compiler_of
from unladen.backends._gpu.cuda_like.driver import driver_of
from unladen.backends.hip.driver import HIP


@pytest.fixture
def driver() -> Iterator[Stub]:
    with at_rest() as found:
        yield found


def refuses(folder: Path, compiler: str = "hip 9.0 of 60032830") -> str:
    return trial.refuses(vendor("hip", port=HIP.port), compiler, "gfx90a", Binaries(folder))


def program(folder: Path, text: str) -> str:
    """The path of a script that stands for Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("fails", ["", "exit 3", "kill -KILL $$", "echo compiling; kill -KILL $$"])
def test_a_trial_that_does_not_happen_is_not_kept(fails: str, driver: Stub, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Python is missing or doesn't start, or others end it."""
    folder = tmp_path / "kept"
    monkeypatch.setattr(sys, "executable",
                        program(tmp_path, fails) if fails else str(tmp_path / "none"))
    assert refuses(folder).startswith("its compiler can't be tried: ")
    assert not folder.exists() or not list(folder.iterdir())
    monkeypatch.undo()
    assert refuses(folder) == "" and len(list(folder.iterdir())) == 1


def test_a_trial_that_takes_too_long_is_not_kept(driver: Stub, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0)
    assert "timed out" in refuses(tmp_path) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("ends", ["kill -ABRT $$", "exit 1"])
def test_what_the_compiler_does_is_kept(ends: str, driver: Stub, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the driver is another one, with another compiler."""
    folder = tmp_path / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", program(tmp_path, f"echo compiling; echo no >&2; {ends}"))
        why = refuses(folder)
    assert why == "its compiler can't make code for gfx90a (no): update AMD's HIP runtime"
    assert refuses(folder) == why
    assert refuses(folder, "hip 9.0 of 60140091") == ""


def test_a_frozen_program_is_not_started_again(driver: Stub, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", program(tmp_path, "echo compiling; exit 1"))
    folder = tmp_path / "kept"
    assert refuses(folder) == "" and not folder.exists()


def test_the_text_needs_what_kernels_need(driver: Stub) -> None:
    """A compiler that lacks an instruction for the chip is found by it."""
    text = c_texts.port_text(HIP.port) + trial.TEXT
    assert all(f"{name}(" in trial.TEXT for name in ("dot_i8", "subgroup_add", "f16_to_f32"))
    assert "FN int dot_i8" in text and "#include" not in text


def test_what_tells_compilers_apart(driver: Stub) -> None:
    """All of ROCm's say that they are of version 9.0; NVRTC tells its own."""
    hip, cuda = vendor("hip"), vendor("cuda")
    assert driver_of(hip) is not None
    found = []
    for version in (60032830, 60032831):
        driver.set("version", version)
        compiler, other = compiler_of(hip), compiler_of(cuda)
        assert compiler is not None and other is not None
        found.append(compiler.identity)
        assert other.identity == "cuda 12.9"
        compiler_of.cache_clear()
    assert found == ["hip 12.9 of 60032830", "hip 12.9 of 60032831"]
