"""Whole models through ggml, its memory, and libraries that can't be used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import libggml
from unladen import Model, _native
from unladen.backends.base import BackendOptions
from unladen.backends.ggml import driver, library
from unladen.backends.ggml.backend import GgmlBackend
from unladen.errors import BackendNotInitialised, OutOfMemory

F32 = ("stories260K-f32", "tinystories656K-f32", "tinystories656K-qwen2-f32",
       "makemore-induction-gpt2-f32")


@pytest.mark.parametrize("split", [{}, {"n_gpu_layers": 1}], ids=["ggml", "ggml+cpu"])
@pytest.mark.parametrize("name", F32)
def test_f32_token_for_token(ggml: GgmlBackend, shared: Path, name: str,
                             split: dict[str, int]) -> None:
    cases = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"]
    devices = ["ggml:0", *(["cpu"] if split else [])]
    with Model(shared / f"models/{name}.gguf", devices=devices, kv_type="f32", **split) as model:
        assert all(device in model.placement() for device in devices), model.placement()
        for case in cases:
            result = model.generate(case["prompt"], temperature=0.0, logprobs=0,
                                    max_tokens=len(case["tokens"]))
            assert (result.tokens, result.text) == (case["tokens"], case["text"])
            assert result.logprobs is not None
            for mine, expected in zip(result.logprobs, case["token_logprobs"], strict=True):
                assert abs(mine.logprob - expected) < 1e-3


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_batches_and_long_prompts(ggml: GgmlBackend, kv_type: str) -> None:
    """Several sequences in a step, prompts that take several steps, and other types of the cache:
    the logits of the CPU backend, whose products are the reference's."""
    texts = ["Once upon a time", "The little cloud", "A dog and a cat went to the park. " * 12]
    rows = []
    for device in ("ggml:0", "cpu"):
        with Model("tiny", devices=[device], kv_type=kv_type, batch_size=64, context_size=256,
                   precise=True) as model:
            rows.append([model.logits(text)[-1] for text in texts])
            together = model.generate(texts, temperature=0.0, max_tokens=8)
            alone = [model.generate(text, temperature=0.0, max_tokens=8) for text in texts]
            assert [r.text for r in together] == [r.text for r in alone]
    for mine, expected in zip(*rows, strict=True):
        np.testing.assert_allclose(mine, expected, atol=2e-3 * np.abs(expected).max())


def test_memory_is_refused_where_there_is_none(ggml: GgmlBackend) -> None:
    device = ggml.open("ggml:0", BackendOptions())
    with pytest.raises(OutOfMemory) as error:
        ggml.alloc(device, 1 << 50, "arena")
    assert error.value.device == "ggml:0" and error.value.requested == 1 << 50


def test_the_hosts_processor_has_no_more_than_the_host(ggml: GgmlBackend,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    device = ggml.open("ggml:0", BackendOptions())
    if not ggml._driver(device).is_cpu:
        pytest.skip("this ggml has another device")
    monkeypatch.setattr(driver, "free_host_bytes", lambda: 1 << 20)
    assert ggml.free_bytes(device) == 1 << 20
    with pytest.raises(OutOfMemory):
        ggml.alloc(device, 1 << 20, "arena")


def test_a_number_beyond_the_last_device(ggml: GgmlBackend) -> None:
    with pytest.raises(BackendNotInitialised, match="ggml:99 is no device") as error:
        ggml.open("ggml:99", BackendOptions())
    assert "ggml:0" in error.value.hint


def place() -> Path:
    """The folder of the library that tests use."""
    found = libggml.folder()
    assert found is not None
    return found


def run(code: str, named: Path | str, *arguments: Path) -> str:
    """What a new process prints that names ``named`` as its library."""
    environment = {**os.environ, library.VARIABLE: str(named)}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True,
                          text=True, capture_output=True, timeout=120).stdout


OPEN = """
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.errors import BackendNotInitialised
backend = backend_of("ggml")
try:
    print("open", backend.open("ggml", BackendOptions()).name)
except BackendNotInitialised as error:
    print(error, "|", error.hint, "|", backend.why_none())
"""


LONG = """
import sys
from unladen import Model
with Model(sys.argv[1], devices=["ggml:0"], context_size=400) as model:
    print(model.logits([5] * 300).shape[0])
"""


def test_positions_beyond_the_table(ggml: GgmlBackend, shared: Path) -> None:
    """Such a context gets a warning, and the table's last row; ggml alone would end the process."""
    model = shared / "models/makemore-induction-gpt2-f32.gguf"
    assert run(LONG, place(), model).split() == ["300"]


def test_no_debugger_where_ggml_ends_the_process(ggml: GgmlBackend) -> None:
    code = ("import ctypes\nfrom unladen.backends.ggml import library\nlibrary.load()\n"
            "get = ctypes.CDLL(None).getenv\nget.restype = ctypes.c_char_p\n"
            "print(get(b'GGML_NO_BACKTRACE'))")
    if sys.platform == "win32":
        pytest.skip("only elsewhere ggml forks")
    assert run(code, place()) == "b'1'\n"


def test_a_folder_without_a_library(tmp_path: Path) -> None:
    said = run(OPEN, tmp_path)
    assert f"has no {library.NAMES[0]}" in said
    error, hint, why = said.split(" | ")
    assert library.VARIABLE in hint
    assert why.strip() == error.strip()  # with the hint, once


def test_names_with_a_version(ggml: GgmlBackend) -> None:
    """A named file is loaded, whatever else is beside it, and found in a folder by itself."""
    files = [*place().glob("libggml.so.*"), *place().glob("*.libs/libggml-????????.so*")]
    if not files:
        pytest.skip("this ggml has plain names only")
    for file in files:
        assert run(OPEN, file) == "open ggml:0\n"
    for folder in {file.parent for file in files}:
        assert run(OPEN, folder) == "open ggml:0\n"


@pytest.mark.parametrize(("names", "name", "ending", "expected"), [
    ("libggml.so.0 libggml.so.0.9.4 libggml-base.so.0", "libggml.so", "", "libggml.so.0"),
    ("libggml.so.0 libggml.so", "libggml.so", "", "libggml.so"),
    ("libggml-base.so libggml-base.so.0", "libggml-base.so", ".so.0", "libggml-base.so.0"),
    ("libggml-base-319ad4fb.so.0.13.1 libggml-684d824a.so.0.13.1", "libggml.so", "",
     "libggml-684d824a.so.0.13.1"),
    ("libggml-base-319ad4fb.so.0.13.1 libggml-684d824a.so.0.13.1", "libggml-base.so",
     "-684d824a.so.0.13.1", "libggml-base-319ad4fb.so.0.13.1"),
    ("libggml-base.so libggml-cpu.so libggml-cuda.so libggml.so.bak", "libggml.so", "", None),
    ("libggml.0.dylib libggml-base.0.dylib", "libggml.dylib", "", "libggml.0.dylib"),
    ("ggml-base.dll ggml-0a1b2c3d4e5f.dll", "ggml.dll", "", "ggml-0a1b2c3d4e5f.dll")])
def test_names_that_a_library_is_found_by(tmp_path: Path, names: str, name: str, ending: str,
                                          expected: str | None) -> None:
    for each in names.split():
        (tmp_path / each).touch()
    file = library._file_of(tmp_path, name, ending)
    assert (file and file.name) == expected


def test_the_folder_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / library.NAMES[0]
    file.touch()
    assert library._folder_named(tmp_path) == library._folder_named(file) == tmp_path


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / library.NAMES[0]).write_bytes(b"no library" * 100)
    said = run(OPEN, tmp_path)
    assert "can't be loaded" in said and str(tmp_path) in said


def test_a_library_without_a_function(tmp_path: Path) -> None:
    """Any other library has none of ggml's functions."""
    assert _native.__file__ is not None
    shutil.copy(_native.__file__, tmp_path / library.NAMES[0])
    assert "it is too old" in run(OPEN, tmp_path)


def test_a_named_library_is_listed(ggml: GgmlBackend) -> None:
    code = ("from unladen.backends import all_devices, default_devices\n"
            "print([d.name for d in all_devices()], [d.name for d in default_devices()])")
    devices, default = run(code, place()).split("] ")
    assert "'ggml:0'" in devices and "ggml" not in default


def test_functions_that_had_other_names() -> None:
    """The newer name first: a new library has both, and the earlier name is another function."""
    class Stub:
        def __init__(self, *names: str) -> None:
            for name in names:
                setattr(self, name, type("Function", (), {"name": name})())
    for names in (("ggml_clamp",), ("ggml_clamp", "ggml_clamp_inplace")):
        made: Any = Stub(*names)
        function = library._declared([made], "ggml_clamp_inplace", (None, int))
        assert (function.name, function.argtypes) == (names[-1], [int])
