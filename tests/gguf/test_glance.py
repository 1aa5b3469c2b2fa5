"""What a list of models learns from a header."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from unladen.gguf import GGUFWriter
from unladen.gguf.file_types import FILE_TYPES
from unladen.gguf.glance import glance
from unladen.quantizing.mixes import MIXES


def written(path: Path, arch: str = "llama", **keys: object) -> Path:
    writer = GGUFWriter(path, arch)
    for key, value in keys.items():
        writer.set(f"general.{key}", value)  # type: ignore[arg-type]
    writer.add_tensor("a", np.zeros((4, 32), np.float32))
    writer.add_tensor("b", np.zeros((32,), np.float16))
    writer.write()
    return path


@pytest.mark.parametrize(("arch", "keys", "expected"), [
    ("llama", {"file_type": 15}, ("model", "Q4_K_M", "")), ("llama", {}, ("model", "F32", "")),
    ("llama", {"file_type": 9999}, ("model", "F32", "")),
    ("llama", {"type": "adapter", "file_type": 1}, ("adapter", "F16", "")),
    ("llama", {"type": "mmproj"}, ("projector", "F32", "")),
    ("clip", {"type": "model"}, ("projector", "F32", "")),
    ("", {"type": "imatrix"}, ("imatrix", "F32", "")),
    ("llama", {"type": "model"}, ("model", "F32", ""))])
def test_kinds_and_quants(tmp_path: Path, arch: str, keys: dict[str, object],
                          expected: tuple[str, str, str]) -> None:
    assert glance(written(tmp_path / "a.gguf", arch or "x", **keys)) == expected


def test_problems(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.gguf").read_bytes()
    for name, data, message in (("cut", whole[:-8], "the file at"), ("empty", b"", "is empty"),
                                ("html", b"<html>" * 20, "not a GGUF file")):
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(data)
        found = glance(path)
        assert message in found.problem and str(path) not in found.problem
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "is a pipe" in glance(tmp_path / "pipe.gguf").problem
    assert "doesn't exist" in glance(tmp_path / "none.gguf").problem


def test_numbers_are_those_of_the_mixes() -> None:
    assert {m.file_type: m.name for m in MIXES.values()}.items() <= FILE_TYPES.items()
