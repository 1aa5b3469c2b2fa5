"""The writer writes valid values, refuses others, and leaves no file after an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.errors import InvalidArgument, UnsupportedQuant
from unladen.gguf import GGUFWriter, open_gguf


@pytest.mark.parametrize(("value", "kind"), [
    ("text", "STRING"), (b"\xff", "STRING"), (True, "BOOL"), (np.bool_(False), "BOOL"),
    (0, "UINT32"), (2**32 - 1, "UINT32"), (-1, "INT32"), (-2**31, "INT32"), (2**32, "UINT64"),
    (2**64 - 1, "UINT64"), (-2**31 - 1, "INT64"), (0.5, "FLOAT32"), (np.float64(0.5), "FLOAT32"),
    (np.int8(3), "UINT32"), ([1, 2], "UINT32[]"), ([1, -2], "INT32[]"), ([1, 2**32], "UINT64[]"),
    ([-1, 2**32], "INT64[]"), ([1, 0.5], "FLOAT32[]"), (["a"], "STRING[]"), ([True], "BOOL[]"),
    ([[1], [2, 3]], "UINT32[][]"), (np.zeros((2, 3), np.int16), "INT16[][]"),
    (np.ones(2, np.uint8), "UINT8[]"), (np.ones(2), "FLOAT64[]"), (np.ones(2, bool), "BOOL[]")])
def test_inferred_types(tmp_path: Path, value: Any, kind: str) -> None:
    path = tmp_path / "a.gguf"
    writer = GGUFWriter(path)
    writer.set("k", value)
    writer.write()
    with open_gguf(path) as file:
        assert file.metadata.type_of("k") == kind
        read = file.metadata.raw("k") if isinstance(value, bytes) else file.metadata["k"]
        assert read == (value.tolist() if isinstance(value, np.ndarray) else value)


@pytest.mark.parametrize(("value", "kind"), [
    (256, "UINT8"), (-1, "UINT64"), (2**64, None), (-2**63 - 1, None), (1.5, "INT32"),
    (True, "UINT8"), (1, "BOOL"), ("a", "INT8"), (1, "STRING"), (1e39, "FLOAT32"), (None, None),
    ([], None), ([1, "a"], None), ([1, [2]], None), ([True, 1], None), ({"a": 1}, None),
    (1, "ARRAY"), (1, "INT128"), ("\ud800", None), ([2, 300], "UINT8"), ([[1], [300]], "INT8")])
def test_refused_values(tmp_path: Path, value: Any, kind: str | None) -> None:
    with pytest.raises(InvalidArgument):
        GGUFWriter(tmp_path / "a.gguf").set("k", value, kind)


def test_metadata_of_a_reader_can_be_copied(tmp_path: Path) -> None:
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    writer = GGUFWriter(first, "llama", byteorder="big")
    values = {"u8": (3, "UINT8"), "none": ([], "INT16"), "f8": ([0.1], "FLOAT64"),
              "raw": ([b"\xff", b"ok"], "STRING"), "nested": ([[1], []], "INT8")}
    for key, (value, kind) in values.items():
        writer.set(key, value, kind)
    writer.write()
    writer = GGUFWriter(second)
    with open_gguf(first) as file:
        for key in file.metadata:
            writer.set(key, file.metadata[key], file.metadata.type_of(key))
        writer.set("again", file.metadata["f8"])
    writer.write()
    with open_gguf(first) as a, open_gguf(second) as b:
        assert dict(b.metadata) == dict(a.metadata) | {"again": a.metadata["f8"]}
        assert all(a.metadata.type_of(k) == b.metadata.type_of(k) for k in a.metadata)
        assert b.metadata.type_of("again") == "FLOAT64[]"
        assert b.metadata["raw"].raw(0) == b"\xff"


@pytest.mark.parametrize(("array", "options"), [
    (np.zeros(4, np.uint8), {}), (np.zeros(4, np.complex64), {}), (np.zeros((), np.float32), {}),
    (np.zeros((1,) * 5, np.float32), {}), (np.zeros((2, 0), np.float32), {}),
    (np.zeros(18, np.uint8), {"quant": "Q4_0"}), (np.zeros(4, np.float32), {"shape": (4,)}),
    (np.zeros(18, np.int8), {"quant": "Q4_0", "shape": (32,)}),
    (np.zeros(17, np.uint8), {"quant": "Q4_0", "shape": (32,)}),
    (np.zeros(18, np.uint8), {"quant": "Q4_0", "shape": (2, 16)})])
def test_refused_tensors(tmp_path: Path, array: np.ndarray, options: dict) -> None:
    with pytest.raises(InvalidArgument):
        GGUFWriter(tmp_path / "a.gguf").add_tensor("t", array, **options)


def test_refused_settings(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    for options in ({"version": 1}, {"alignment": 24}, {"alignment": 0}, {"split_max_tensors": -1}):
        with pytest.raises(InvalidArgument):
            GGUFWriter(path, **options)
    writer = GGUFWriter(path, "x")
    for key, value in (("general.architecture", "y"), ("split.no", 1), ("general.alignment", 64)):
        with pytest.raises(InvalidArgument):
            writer.set(key, value)
    writer.add_tensor("t", np.zeros(1, np.float32))
    with pytest.raises(InvalidArgument, match="already"):
        writer.add_tensor("t", np.zeros(1, np.float32))
    with pytest.raises(UnsupportedQuant):
        writer.add_tensor("u", np.zeros(1, np.uint8), quant="Q99", shape=(1,))


def test_strides_and_byte_orders_of_arrays(tmp_path: Path, rng: np.random.Generator) -> None:
    base = rng.standard_normal((6, 4), dtype=np.float32)
    for i, array in enumerate([base.T, base[::2], base.astype(">f4"), base[:, 1:2]]):
        for byteorder in ("little", "big"):
            path = tmp_path / f"{i}-{byteorder}.gguf"
            writer = GGUFWriter(path, byteorder=byteorder)
            writer.add_tensor("t", array)
            writer.write()
            with open_gguf(path) as file:
                info = file.tensors["t"]
                read = info.data.view("<f4").reshape(info.shape)
                assert np.array_equal(read, array)


@pytest.mark.parametrize("split_max_tensors", [0, 1])
def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 split_max_tensors: int) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"what was there")
    writer = GGUFWriter(path, "x", split_max_tensors=split_max_tensors)
    writer.add_tensor("t", np.zeros(4, np.float32))
    writer.add_tensor("u", np.zeros(4, np.float32))
    real, calls = GGUFWriter._data, []

    def fails(self: GGUFWriter, tensor: Any) -> memoryview:
        calls.append(tensor)
        if len(calls) == 2:
            raise OSError(28, "no space left")
        return real(self, tensor)

    monkeypatch.setattr(GGUFWriter, "_data", fails)
    with pytest.raises(OSError, match="no space"):
        writer.write()
    assert [p.name for p in tmp_path.iterdir()] == ["a.gguf"]
    assert path.read_bytes() == b"what was there"
    monkeypatch.undo()
    written = writer.write()
    assert sorted(tmp_path.iterdir()) == sorted({path, *written})
