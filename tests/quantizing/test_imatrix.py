"""Importance matrices are read in both formats; other files are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from unladen.errors import GGUFError, ModelNotFound
from unladen.gguf import GGUFWriter
from unladen.quantizing import read_imatrix


def write_gguf(path: Path, sums: np.ndarray, counts: np.ndarray, *, name: str = "a.weight") -> Path:
    writer = GGUFWriter(path)
    writer.set("general.type", "imatrix")
    writer.set("imatrix.datasets", ["wiki.txt", "other.txt"])
    writer.set("imatrix.chunk_count", 7)
    writer.set("imatrix.chunk_size", 512)
    writer.add_tensor(f"{name}.in_sum2", sums)
    writer.add_tensor(f"{name}.counts", counts)
    writer.write()
    return path


def records(entries: dict[str, tuple[int, np.ndarray]], rest: bytes = b"") -> bytes:
    data = struct.pack("<i", len(entries))
    for name, (calls, values) in entries.items():
        data += struct.pack("<i", len(name)) + name.encode()
        data += struct.pack("<ii", calls, len(values)) + values.astype("<f4").tobytes()
    return data + rest


def test_gguf(tmp_path: Path, rng: np.random.Generator) -> None:
    """Each matrix has means of its own; those of a matrix with count 0 are all equal."""
    sums = rng.random((3, 8), np.float32)
    sums[1] = 0
    counts = np.array([[4], [0], [2]], np.float32)
    found = read_imatrix(write_gguf(tmp_path / "i.gguf", sums, counts))
    assert (found.dataset, found.n_chunks) == ("wiki.txt", 7)
    expected = np.concatenate([sums[0] / 4, np.ones(8), sums[2] / 2])
    np.testing.assert_array_equal(found.entries["a.weight"], expected.astype(np.float32))


def test_records(tmp_path: Path, rng: np.random.Generator) -> None:
    a, b = rng.random(8, np.float32), rng.random(16, np.float32)
    path = tmp_path / "i.dat"
    path.write_bytes(records({"a": (4, a), "b": (0, b)}, struct.pack("<ii", 9, 4) + b"text"))
    found = read_imatrix(path)
    assert (found.dataset, found.n_chunks, set(found.entries)) == ("text", 9, {"a", "b"})
    np.testing.assert_array_equal(found.entries["a"], a / np.float32(4))
    np.testing.assert_array_equal(found.entries["b"], b)
    path.write_bytes(records({"a": (4, a)}))
    assert read_imatrix(path).n_chunks == 0


@pytest.mark.parametrize("data", [
    b"", b"\x01\0\0\0", struct.pack("<ii", 1, -5), struct.pack("<i", -1),
    struct.pack("<ii", 1, 2**30), b"nonsense of some length",
    records({"a": (1, np.ones(4))})[:-3], records({"a": (1, np.array([np.nan]))}),
    records({"a": (1, np.array([-1.0]))}), records({"a": (1, np.ones(0))}),
])
def test_no_imatrix(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "i.dat"
    path.write_bytes(data)
    with pytest.raises(GGUFError) as raised:
        read_imatrix(path)
    assert raised.value.hint


def test_wrong_tensors(tmp_path: Path) -> None:
    path = tmp_path / "i.gguf"
    for sums, counts in ((np.ones(8, np.float32), np.ones(3, np.float32)),
                         (np.ones(8, np.float16), np.ones(1, np.float32))):
        with pytest.raises(GGUFError, match=r"a\.weight"):
            read_imatrix(write_gguf(path, sums, counts))
    writer = GGUFWriter(path)
    writer.add_tensor("a.weight.in_sum2", np.ones(8, np.float32))
    writer.write()
    with pytest.raises(GGUFError, match="needs sums and counts"):
        read_imatrix(path)


def test_a_model_is_none(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("a.weight", np.ones(8, np.float32))
    writer.write()
    with pytest.raises(GGUFError, match="has no tensors"):
        read_imatrix(tmp_path / "m.gguf")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_imatrix(tmp_path / "absent")
