"""Libraries are found where Windows doesn't look for them by itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from unladen.backends._gpu import loading
from unladen.backends.cuda import driver as cuda
from unladen.backends.hip import driver as hip


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is loaded and which folders are searched, in order, on a Windows of Python. A file is a
    library; its lines are its functions."""
    found: list[str] = []

    def load(name: str) -> SimpleNamespace:
        if not Path(name).is_file():
            raise OSError(f"{name} isn't there")
        found.append(Path(name).name)
        return SimpleNamespace(**dict.fromkeys(Path(name).read_text().split(), 0))

    monkeypatch.setattr(loading.ctypes, "CDLL", load)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "add_dll_directory", lambda path: found.append(f"in {path}"),
                        raising=False)
    return found


def files(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("create compile")


def test_a_toolkit_of_cuda(tmp_path: Path, loaded: list[str], monkeypatch: pytest.MonkeyPatch
                           ) -> None:
    """The newest of its compilers, after those in packages of Python."""
    packaged = cuda.packaged()
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert cuda.packaged() == packaged
    files(tmp_path / "bin", "nvrtc64_112_0.dll", "nvrtc64_120_0.dll", "nvrtc64_120_0.alt.dll",
          "nvrtc-builtins64_129.dll", "cudart64_12.dll")
    files(tmp_path / "bin/x64", "nvrtc64_130_0.dll")
    found = cuda.packaged()
    assert found[:len(packaged)] == packaged
    assert [Path(path).name for path in found[len(packaged):]] == [
        "nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
    monkeypatch.setattr(sys, "platform", "linux")
    assert cuda.packaged() == packaged


def test_an_sdk_of_hip(tmp_path: Path, loaded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_PATH", raising=False)
    assert hip.in_sdk() == []
    monkeypatch.setenv("HIP_PATH", str(tmp_path))
    files(tmp_path / "bin", "hiprtc0507.dll", "hiprtc0604.dll", "hiprtc0701.dll",
          "hiprtc-builtins0701.dll", "amd_comgr.dll")
    assert [Path(path).name for path in hip.in_sdk()] == [
        "hiprtc0701.dll", "hiprtc0604.dll", "hiprtc0507.dll"]


@pytest.mark.parametrize(("name", "part"), [
    ("nvrtc64_120_0.dll", "nvrtc-builtins64_129.dll"), ("hiprtc0604.dll", "hiprtc-builtins0604.dll")
])
def test_what_a_compiler_loads_is_there_before_it(tmp_path: Path, loaded: list[str], name: str,
                                                  part: str) -> None:
    files(tmp_path, name, part, part.replace(".dll", ".alt.dll"), "other.dll")
    assert loading.load_library([str(tmp_path / name)], "create") is not None
    assert loaded == [f"in {tmp_path}", part, name]
    loaded.clear()
    assert loading.load_library([name], "create") is None and not loaded


def test_a_function_that_is_missing(tmp_path: Path, loaded: list[str]) -> None:
    """In the first library that has any, as others may be something else."""
    files(tmp_path, "old.dll")
    (tmp_path / "other.dll").write_text("draw")
    paths = [str(tmp_path / name) for name in ("none.dll", "other.dll", "old.dll")]
    assert loading.lacks(paths, "create", "link") == "link"
    assert loading.lacks(paths, "create", "compile") == ""
    assert loading.lacks(paths[:2], "create") == loading.lacks([], "create") == ""
