"""Errors are one line and a hint on stderr; stdout stays empty; there is no traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Ran, Run, Start
from tiny_model import write_tiny

WRONG = 2
"""Exit status of a command line that can't be understood."""


def check(ran: Ran, *words: str) -> None:
    assert ran.code == 1, ran
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], ran.err
    for word in words:
        assert word in lines[0], ran.err


@pytest.mark.parametrize(("options", "words"), [
    (["-n", "-3"], ["max_tokens"]),
    (["--temp", "-1"], ["temperature"]),
    (["--temp", "nan"], ["temperature"]),
    (["--top-p", "2"], ["top_p", "2"]),
    (["--seed", "-5"], ["seed"]),
    (["--stop", ""], ["stop"]),
    (["-c", "-1"], ["context_size"]),
    (["-c", "4"], ["prompt", "4"]),
    (["-c", str(10**12)], ["memory"]),
    (["-b", "0"], ["batch_size"]),
    (["-t", "0"], ["n_threads"]),
    (["--kv-type", "q9"], ["kv_type", "q9"]),
    (["--kv-type", "f16,f16,f16"], ["kv_type"]),
    (["--device", "abacus"], ["abacus"]),
    (["--device", "cpu:x"], ["cpu:x"]),
    (["--device", ""], ["devices"]),
    (["--device", "cpu,cpu"], ["twice"]),
    (["-ngl", "some"], ["--n-gpu-layers", "some"]),
    (["-ngl", "-7"], ["n_gpu_layers"]),
    (["--tensor-split", "a"], ["--tensor-split"]),
    (["--tensor-split", "1,1"], ["tensor_split"]),
    (["-ot", "blk"], ["--override-tensor"]),
    (["-ot", "(=cpu"], ["override_tensor", "("]),
    (["-ot", "blk=abacus"], ["abacus"]),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_bad_options(unladen: Run, model: str, options: list[str], words: list[str]) -> None:
    check(unladen("run", model, "a b c d e f", *options), *words)


@pytest.mark.parametrize("command", ["run", "bench", "perplexity", "show"])
@pytest.mark.parametrize(("name", "content"), [
    ("absent.gguf", None), ("empty.gguf", b""), ("text.gguf", b"Once upon a time"),
    ("head.gguf", b"GGUF\3\0\0\0"), ("huge.gguf", b"GGUF\3\0\0\0" + b"\xff" * 16)])
def test_bad_files(unladen: Run, tmp_path: Path, command: str, name: str, content: bytes | None
                   ) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    check(unladen(command, path), name)


@pytest.mark.parametrize("name", ["folder", "none/picture.svg"])
def test_a_picture_that_can_not_be_written(unladen: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    check(unladen("plan", "tiny", "--svg", tmp_path / name), "--svg", name)


def test_directory(unladen: Run, tmp_path: Path) -> None:
    check(unladen("run", tmp_path, "a"), str(tmp_path), "directory")


def test_unknown_name(unladen: Run) -> None:
    check(unladen("run", "tinny", "a"), "tinny")


@pytest.mark.parametrize("share", [0.1, 0.6, 0.999])
def test_truncated_file(unladen: Run, model: str, tmp_path: Path, share: float) -> None:
    whole = Path(model).read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[:int(len(whole) * share)])
    check(unladen("run", cut, "a"), "cut.gguf")


def test_unknown_architecture(unladen: Run, tmp_path: Path, rng: np.random.Generator) -> None:
    check(unladen("run", write_tiny(tmp_path / "m.gguf", rng, arch="abacus"), "a"), "abacus")


def test_wrong_shape(unladen: Run, tmp_path: Path, rng: np.random.Generator) -> None:
    wrong = {"blk.1.attn_k.weight": np.zeros((32, 96), np.float32)}
    path = write_tiny(tmp_path / "m.gguf", rng, changed=wrong)
    check(unladen("run", path, "a"), "blk.1.attn_k.weight", "[32, 96]", "[32, 64]")


@pytest.mark.parametrize("arguments", [["nosuch"], ["run"], ["run", "m", "a", "b"],
                                       ["run", "m", "a", "--temp", "hot"], ["bench", "m", "--x"]])
def test_bad_command_lines(unladen: Run, arguments: list[str]) -> None:
    ran = unladen(*arguments)
    assert (ran.code, ran.out) == (WRONG, "")
    assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["error", "hint"], ran.err


def test_prompt_that_is_no_text(start: Start, model: str) -> None:
    process = start("run", model)
    out, err = process.communicate(b"\xff\xfe")
    assert process.returncode == 1
    check(Ran(1, out.decode(), err.decode()))


def test_debug_shows_where(start: Start, model: str) -> None:
    wrong = ["run", model, "a", "-n", "-3"]
    for line in (["--debug", *wrong], [*wrong, "--debug"]):
        process = start(*line)
        out, err = process.communicate()
        assert (process.returncode, out) == (1, b"")
        assert b"Traceback" in err and b"InvalidArgument" in err


def test_debug_may_be_a_prompt(unladen: Run, model: str) -> None:
    ran = unladen("run", model, "-n", "3", "--temp", "0", "--", "--debug")
    assert ran.code == 0 and ran.out
