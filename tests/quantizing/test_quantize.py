"""Quantizing whole files: their contents, and errors while they are written."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unladen
from quantizing.models import MODELS, Floats, importance, shapes, write
from tiny_model import write_tiny
from unladen import Model, quants
from unladen.errors import DiskFull, InvalidArgument, ModelNotFound
from unladen.gguf import GGUFFile, GGUFWriter, open_gguf
from unladen.quantizing import Imatrix, quantize, read_imatrix
from unladen.quantizing import write as writing

SECRET = "general.license"


@pytest.fixture
def source(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write(tmp_path / "source.gguf", MODELS["plain"], int(rng.integers(1 << 30)))


def floats(file: GGUFFile, name: str) -> Floats:
    info = file.tensors[name]
    return quants.dequantize(info.quant, info.data, info.shape)


def relative_error(a: Floats, b: Floats) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def test_weights_and_metadata(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    plan = unladen.quantize(source, target, "q4_k_m")
    assert target.stat().st_size == plan.nbytes
    with open_gguf(source) as old, open_gguf(target) as new:
        assert set(new.tensors) == set(old.tensors)
        assert {name: t.quant for name, t in new.tensors.items()} == {
            row.source.name: row.quant for row in plan.rows}
        for name, tensor in new.tensors.items():
            # 32 normal numbers span some 4.2 deviations, in 15 steps; rounding leaves 1 / sqrt(12)
            # of a step: 0.08.
            bound = 0 if tensor.quant == "F32" else 0.1
            assert relative_error(floats(old, name), floats(new, name)) <= bound, name
        assert new.metadata["general.file_type"] == 15
        assert new.metadata["general.quantization_version"] == 2
        assert new.metadata["llama.block_count"] == old.metadata["llama.block_count"]


def test_metadata_is_carried_over(tmp_path: Path, rng: np.random.Generator) -> None:
    """Arrays and strings that aren't UTF-8 are kept, from big- and little-endian files."""
    targets = []
    for order in ("little", "big"):
        writer = GGUFWriter(tmp_path / f"{order}.gguf", "llama", byteorder=order, alignment=64)
        writer.set("llama.block_count", 1)
        writer.set(SECRET, b"\xff\x00 text")
        writer.set("a", ["x", "", "\u00e9"])
        writer.set("b", np.arange(5, dtype=np.int16))
        writer.set("c", [[1, 2], [3]], "UINT64")
        writer.set("d", True)
        writer.set("general.file_type", 1)
        writer.add_tensor("blk.0.ffn_up.weight", np.linspace(-1, 1, 512, dtype=np.float32
                                                             ).reshape(2, 256))
        writer.write()
        targets.append(tmp_path / f"{order}-q.gguf")
        quantize(tmp_path / f"{order}.gguf", targets[-1], "Q5_K")
    assert targets[0].read_bytes() == targets[1].read_bytes()
    with open_gguf(targets[1]) as file:
        assert file.metadata.raw(SECRET) == b"\xff\x00 text"
        assert file.metadata["a"] == ["x", "", "\u00e9"]
        assert file.metadata["b"] == list(range(5)) and file.metadata.type_of("b") == "INT16[]"
        assert file.metadata.type_of("c") == "UINT64[][]"
        assert file.metadata["d"] is True and file.metadata["general.file_type"] == 17
        assert file.tensors["blk.0.ffn_up.weight"].offset % 64 == 0


@pytest.mark.parametrize("quant", ["Q2_K", "Q3_K", "Q4_0", "Q8_0", "IQ4_XS", "MXFP4"])
def test_any_number_of_threads(source: Path, tmp_path: Path, quant: str,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    results = set()
    for n_threads, level in ((1, None), (2, None), (5, "portable")):
        if level:
            monkeypatch.setenv("UNLADEN_CPU_ISA", level)
        quantize(source, tmp_path / "t.gguf", quant, n_threads=n_threads, overwrite=True)
        results.add((tmp_path / "t.gguf").read_bytes())
    assert len(results) == 1


def test_tall_matrices_are_cut(tmp_path: Path, rng: np.random.Generator) -> None:
    """Threads take pieces of several matrices, each with its own importance; together they are the
    whole tensor."""
    x = rng.standard_normal((3, 700, 512), np.float32)
    weights = np.concatenate([importance(rng, 512) for _ in range(3)])
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.set("llama.block_count", 1)
    writer.add_tensor("blk.0.ffn_up_exps.weight", x)
    writer.write()
    _write_imatrix(tmp_path / "i.gguf", {"blk.0.ffn_up_exps.weight": weights.reshape(3, -1)})
    quantize(tmp_path / "m.gguf", tmp_path / "t.gguf", "Q4_K", imatrix=tmp_path / "i.gguf",
             n_threads=2)
    with open_gguf(tmp_path / "t.gguf") as file:
        found = file.tensors["blk.0.ffn_up_exps.weight"].data
        level = writing.isa_level()
        expected = [writing.native.quantize("Q4_K", x[i], weights.reshape(3, -1)[i], 288, level)
                    for i in range(3)]
        np.testing.assert_array_equal(found, np.concatenate([e for e in expected if e is not None]))


def _write_imatrix(path: Path, entries: dict[str, Floats]) -> None:
    writer = GGUFWriter(path)
    writer.set("imatrix.datasets", ["text.txt"])
    writer.set("imatrix.chunk_count", 3)
    for name, values in entries.items():
        writer.add_tensor(f"{name}.in_sum2", values)
        writer.add_tensor(f"{name}.counts", np.ones((len(np.atleast_2d(values)), 1), np.float32))
    writer.write()


def test_importance_is_noted(source: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "i.gguf"
    _write_imatrix(path, {name: importance(rng, 256) for name, shape in shapes(MODELS["plain"])
                          if len(shape) > 1})
    quantize(source, tmp_path / "t.gguf", "Q2_K_S", imatrix=path)
    with open_gguf(tmp_path / "t.gguf") as file:
        noted = {key.rpartition(".")[2]: value for key, value in file.metadata.items()
                 if key.startswith("quantize.imatrix.")}
    n = len(read_imatrix(path).entries)
    assert noted == {"file": str(path)[:127], "dataset": "text.txt", "entries_count": n,
                     "chunks_count": 3}


def test_parts_become_one(tmp_path: Path, rng: np.random.Generator) -> None:
    whole = write(tmp_path / "whole.gguf", MODELS["grouped"])
    with open_gguf(whole) as file:
        writer = GGUFWriter(tmp_path / "m.gguf", split_max_tensors=60)
        for key, value in file.metadata.items():
            writer.set(key, value, file.metadata.type_of(key))
        for name, info in file.tensors.items():
            writer.add_tensor(name, info.data, quant=info.quant, shape=info.shape)
        parts = writer.write()
    assert len(parts) == 3
    quantize(parts[1], tmp_path / "a.gguf", "Q4_0")
    quantize(whole, tmp_path / "b.gguf", "Q4_0")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


@pytest.mark.parametrize("keys", [{}, {"block_count": 2**31 - 1, "attention.head_count": 8},
                                  {"block_count": 2, "attention.head_count": [4, 2],
                                   "attention.head_count_kv": [1, 2]}])
def test_odd_hyper_parameters(tmp_path: Path, keys: dict[str, Any]) -> None:
    """A file that isn't a decoder has few hyper-parameters; those of layers may be arrays."""
    writer = GGUFWriter(tmp_path / "m.gguf", "clip")
    for key, value in keys.items():
        writer.set(f"clip.{key}", value, "UINT32")
    writer.add_tensor("v.blk.0.attn_v.weight", np.ones((2, 256), np.float32))
    writer.write()
    plan = quantize(tmp_path / "m.gguf", tmp_path / "t.gguf", "Q2_K")
    assert [row.quant for row in plan.rows] == ["Q4_K" if len(keys) == 3 else "Q3_K"]


def test_result_runs(tmp_path: Path, rng: np.random.Generator) -> None:
    """The result has the source's weights and runs like a model with these weights in float32."""
    source, target = write_tiny(tmp_path / "m.gguf", rng, n_embd=256), tmp_path / "q.gguf"
    quantize(source, target, "Q6_K")
    with open_gguf(source) as old, open_gguf(target) as new:
        weights = {name: floats(new, name) for name in new.tensors}
        for name, tensor in new.tensors.items():
            assert tensor.quant == ("Q6_K" if len(tensor.shape) == 2 else "F32"), name
            # 16 normal numbers reach some 2 deviations, in 32 steps; rounding leaves 1 / sqrt(12)
            # of a step: 0.018.
            bound = 0 if tensor.quant == "F32" else 0.02
            assert relative_error(floats(old, name), weights[name]) <= bound, name
    same = write_tiny(tmp_path / "same.gguf", rng, n_embd=256, changed=weights)
    with (Model(same, n_threads=1, precise=True) as wanted,
          Model(target, n_threads=1, precise=True) as got):
        a, b = wanted.logits([1, 20, 30]), got.logits([1, 20, 30])
    # Sums in another order may round a float16 number of the cache in the other direction.
    assert relative_error(a, b) < 2**-11


def test_result_runs_like_its_source(tmp_path: Path, rng: np.random.Generator) -> None:
    """Activations are rounded as usual. Errors are 0.066 +- 0.008 and depend on the model: one
    model in 2700 is off by more than a tenth, whatever its tokens. So several models are
    compared."""
    errors = []
    for _ in range(5):
        source = write_tiny(tmp_path / "m.gguf", rng, n_embd=256)
        quantize(source, tmp_path / "q.gguf", "Q6_K", overwrite=True)
        with (Model(source, n_threads=1) as before,
              Model(tmp_path / "q.gguf", n_threads=1) as after):
            errors.append(relative_error(before.logits([1, 20, 30]), after.logits([1, 20, 30])))
    assert np.median(errors) < 0.09, errors
    assert max(errors) < 0.13, errors


def test_from_quantized(source: Path, tmp_path: Path) -> None:
    first = quantize(source, tmp_path / "q8.gguf", "Q8_0")
    with pytest.raises(InvalidArgument, match="quantized already") as raised:
        quantize(tmp_path / "q8.gguf", tmp_path / "q4.gguf", "Q4_K_M")
    assert "--allow-requantize" in raised.value.hint
    plan = quantize(tmp_path / "q8.gguf", tmp_path / "q4.gguf", "Q4_K_M", allow_requantize=True)
    assert plan.bits_per_weight < first.bits_per_weight
    # Nothing changes, so nothing is lost.
    quantize(tmp_path / "q8.gguf", tmp_path / "again.gguf", "Q8_0")
    assert (tmp_path / "again.gguf").read_bytes() == (tmp_path / "q8.gguf").read_bytes()


def test_what_is_there_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.gguf"
    target.write_bytes(b"precious")
    with pytest.raises(InvalidArgument, match="exists already") as raised:
        quantize(source, target, "Q4_0")
    assert "--force" in raised.value.hint and target.read_bytes() == b"precious"
    os.symlink(source, tmp_path / "link.gguf")
    for same in (source, tmp_path / "link.gguf"):
        with pytest.raises(InvalidArgument, match="source itself"):
            quantize(source, same, "Q4_0", overwrite=True)
    quantize(source, target, "Q4_0", overwrite=True)
    assert target.read_bytes()[:4] == b"GGUF"


def test_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    plan = quantize(source, tmp_path / "t.gguf", "Q4_0", dry_run=True)
    assert sorted(tmp_path.iterdir()) == before
    assert quantize(source, tmp_path / "t.gguf", "Q4_0").nbytes == plan.nbytes


def test_progress_is_told(source: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    plan = quantize(source, tmp_path / "t.gguf", "Q4_0", progress=lambda *a: told.append(a))
    assert [name for name, _, _ in told] == [row.source.name for row in plan.rows]
    written = [n for _, n, _ in told]
    assert written == sorted(written) and told[-1][1] <= told[-1][2] == plan.nbytes


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("quant", ["Q4_K", "Q8_0", "F16", "MXFP4"])
def test_damaged_weights(tmp_path: Path, bad: float, quant: str) -> None:
    x = np.ones((3, 256), np.float32)
    x[2, 100] = bad
    _check_refused(tmp_path, x, quant, "NaN or infinity")


@pytest.mark.parametrize("quant", ["Q4_K", "Q8_0", "F16"])
def test_weights_beyond_the_format(tmp_path: Path, quant: str) -> None:
    x = np.ones((3, 256), np.float32)
    x[1, 0] = 1e9
    _check_refused(tmp_path, x, quant, "numbers that")


def _check_refused(folder: Path, x: Floats, quant: str, message: str) -> None:
    writer = GGUFWriter(folder / "m.gguf", "llama")
    writer.set("llama.block_count", 1)
    writer.add_tensor("blk.0.ffn_up.weight", x)
    writer.write()
    with pytest.raises(InvalidArgument, match=rf"ffn_up\.weight.*{message}"):
        quantize(folder / "m.gguf", folder / "t.gguf", quant)
    assert [p.name for p in folder.iterdir()] == ["m.gguf"]


def test_no_room(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFull, match="1000 are free"):
        quantize(source, tmp_path / "t.gguf", "Q4_0")
    assert not list(tmp_path.glob("*t.gguf*"))


@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, DiskFull),
                                             (errno.EIO, InvalidArgument)])
def test_room_runs_out(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int,
                       error: type[Exception]) -> None:
    monkeypatch.setattr(writing.native, "requantize_tensor", lambda *_: ("failed", code))
    with pytest.raises(error):
        quantize(source, tmp_path / "t.gguf", "Q4_0")
    assert not list(tmp_path.glob("*t.gguf*"))


def test_failed_write_is_reported(tmp_path: Path) -> None:
    """The native code reports a descriptor that can't be written to."""
    with open(os.devnull, "rb") as file:
        result = writing.native.requantize_tensor(
            writing.isa_level(), ("F32", "Q8_0"), (128, 34), (1, 1, 32), np.zeros(128, np.uint8),
            None, file.fileno(), 0, 1)
    assert result == ("failed", errno.EBADF)


def test_no_folder(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="can't be written"):
        quantize(source, tmp_path / "absent" / "t.gguf", "Q4_0")


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C ends the work between two pieces of a tensor."""
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.set("llama.block_count", 1)
    writer.add_tensor("blk.0.ffn_up.weight", np.ones((1 << 14, 1024), np.float32))
    writer.write()
    timer = threading.Timer(0.02, signal.raise_signal, [signal.SIGINT])

    def run() -> None:
        timer.start()
        while True:
            quantize(tmp_path / "m.gguf", tmp_path / "t.gguf", "Q2_K", overwrite=True, n_threads=1)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert not list(tmp_path.glob(".t.gguf*"))


@pytest.mark.parametrize("arguments", [{"n_threads": 0}, {"type": "Q9"}, {"imatrix": "absent"}])
def test_wrong_arguments(source: Path, tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgument, FileNotFoundError)):
        quantize(source, tmp_path / "t.gguf", **arguments)


def test_imatrix_is_public() -> None:
    assert Imatrix("i", {}).n_chunks == 0


def nothing(path: Path) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.set("llama.block_count", 2)
    writer.set("tokenizer.ggml.tokens", ["a", "b"])
    writer.write()
    return path


@pytest.mark.parametrize("type", ["Q8_0", "Q4_K_M", "F16", "IQ4_XS"])
def test_a_file_without_tensors_is_copied(type: str, tmp_path: Path) -> None:  # noqa: A002
    source, target = nothing(tmp_path / "source.gguf"), tmp_path / "target.gguf"
    plan = quantize(source, target, type, dry_run=True)
    assert plan.bits_per_weight == 0 and not target.exists()
    assert "holds no tensors" in plan.notes[0]
    quantize(source, target, type)
    with open_gguf(target) as file:
        assert not file.tensors and list(file.metadata["tokenizer.ggml.tokens"]) == ["a", "b"]


def test_wishes_that_concern_nothing_are_named(source: Path, tmp_path: Path,
                                               caplog: pytest.LogCaptureFixture) -> None:
    with open_gguf(source) as file:
        columns = file.tensors["blk.0.attn_v.weight"].shape[-1]
    entries = {"blk.0.attn_v.weight": np.ones(columns, np.float32),
               **{f"blk.{i}.strange": np.ones(8, np.float32) for i in range(9)}}
    matrix = tmp_path / "imatrix.gguf"
    writer = GGUFWriter(matrix, "llama")
    writer.set("general.type", "imatrix")
    for name, values in entries.items():
        writer.add_tensor(f"{name}.in_sum2", values[None])
        writer.add_tensor(f"{name}.counts", np.ones((1, 1), np.float32))
    writer.write()
    quantize(source, tmp_path / "t.gguf", "Q4_0", imatrix=matrix, dry_run=True,
             tensor_types=[("ATTN_V", "Q8_0"), ("attn_norm", "Q8_0"), ("ffn_up", "Q8_0")])
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 3
    assert "'ATTN_V' is found in no tensor whose type can change (did you mean attn_v?)" in said[0]
    assert "'attn_norm' is found in no tensor whose type" in said[1]
    assert said[2].startswith("9 of 10 entries of the importance matrix fit no tensor: blk.0.str")


@pytest.mark.parametrize("kind", ["pipe", "folder", "nothing"])
def test_an_importance_matrix_that_is_no_file(kind: str, source: Path, tmp_path: Path) -> None:
    path = tmp_path / "imatrix"
    if kind == "pipe":
        os.mkfifo(path)  # opening a pipe would wait for a writer
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(ModelNotFound, match="importance matrix"):
        quantize(source, tmp_path / "t.gguf", "Q4_0", imatrix=path, dry_run=True)
