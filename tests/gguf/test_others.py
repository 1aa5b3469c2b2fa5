"""The error for a file that isn't GGUF says what the file is."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen.errors import GGUFError
from unladen.gguf import open_gguf

FILLER = bytes(range(200, 256)) * 20


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(16)


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", "x")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("m.gguf"))
    return buffer.getvalue()


def numpy_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(9))
    return buffer.getvalue()


def words(value: object) -> str:
    """The id of a parameter: archives hold the time at which they are made, so none of bytes."""
    return value if isinstance(value, str) else ""


LFS = (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e"
       b"adbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n")


@pytest.mark.parametrize(("content", "what", "hint"), [
    (safetensors(), "a safetensors file", "convert_hf_to_gguf"),
    (zipped(), "a ZIP archive", "PyTorch|convert"), (tarred(), "a tar archive", "unpack"),
    (gzip.compress(FILLER), "a gzip archive", "unpack"), (LFS, "a Git LFS pointer", "git lfs pull"),
    (b"<!DOCTYPE html><html><body>Sign in</body></html>", "an HTML page", "/resolve/"),
    (b"\xef\xbb\xbf\n <html lang='en'><head></head></html>", "an HTML page", "/resolve/"),
    (b"lmgg" + FILLER, "format GGML", "convert"), (b"fmgg" + FILLER, "format GGMF", "convert"),
    (b"tjgg" + FILLER, "format GGJT", "convert"), (numpy_array(), "a NumPy array", "convert"),
    (b'{"error": "Repository not found, or so"}', "JSON: ", "server"),
    (b"Invalid username or password.\n", "a text: 'Invalid username or password.'", "log in"),
    ("\u00e4".encode() * 600, "a text: ", "log in"), (bytes(4096), "begins with zeros", "again"),
    (FILLER, "an unknown format: it begins with", "again"),
    (b"\x80\x02" + FILLER, "a pickle", "convert")], ids=words)
def test_by_the_first_bytes(content: bytes, what: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(GGUFError, match="not a GGUF file, but ") as caught:
        open_gguf(path)
    assert what in caught.value.message
    assert any(part in caught.value.hint + caught.value.message for part in hint.split("|"))


@pytest.mark.parametrize("end", [".part", ".incomplete", ".crdownload"])
def test_downloads_that_are_not_finished(end: str, tmp_path: Path,
                                         make_model: Callable[..., Path]) -> None:
    whole = make_model().read_bytes()
    for content in (whole[:len(whole) // 2], whole[:300], bytes(4000)):
        path = tmp_path / f"m.gguf{end}"
        path.write_bytes(content)
        with pytest.raises(GGUFError) as caught:
            open_gguf(path)
        assert "download isn't finished" in caught.value.hint


def test_nothing_at_all(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"")
    with pytest.raises(GGUFError, match="is empty"):
        open_gguf(tmp_path / "m.gguf")


def test_any_bytes(tmp_path: Path, rng: np.random.Generator) -> None:
    for _ in range(200):
        content = rng.bytes(int(rng.integers(24, 700)))
        (tmp_path / "m.gguf").write_bytes(content)
        with pytest.raises(GGUFError):
            open_gguf(tmp_path / "m.gguf")
