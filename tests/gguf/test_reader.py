"""Properties of the reader's results that the oracle can't check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unladen.errors import InvalidArgument
from unladen.gguf import GGUFWriter, open_gguf

STRING, ARRAY = 8, 9


def test_strings_that_are_not_utf8(little) -> None:
    raw = [b"caf\xc3\xa9", b"\xff\xfe", b"", b"\0", b"a" * 300]
    strings = little.array(STRING, len(raw), b"".join(map(little.string, raw)))
    path = little.file(little.content([little.entry("array", ARRAY, strings),
                                       little.entry("one", STRING, little.string(b"\xe9"))]))
    with open_gguf(path) as file:
        array = file.metadata["array"]
        assert [array.raw(i) for i in range(len(raw))] == raw
        assert list(array) == ["café", "\ufffd\ufffd", "", "\0", "a" * 300]
        assert array[-1] == "a" * 300
        assert array[:2] == ["café", "\ufffd\ufffd"]
        assert array.lengths.tolist() == [5, 2, 0, 1, 300]
        assert array.buffer[array.offsets[0]:][:5].tobytes() == raw[0]
        assert (file.metadata["one"], file.metadata.raw("one")) == ("\ufffd", b"\xe9")
        with pytest.raises(IndexError):
            array[5]
        with pytest.raises(TypeError, match=r"array is STRING\[\]"):
            file.metadata.raw("array")
        with pytest.raises(KeyError):
            file.metadata["none"]


def test_arrays_are_lists_to_the_eye(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    writer = GGUFWriter(path)
    writer.set("numbers", range(1000), "INT64")
    writer.set("nested", [[["a"], ["b", "c"]], [["d"]]])
    writer.set("empty", [], "STRING")
    writer.write()
    with open_gguf(path) as file:
        numbers, nested, empty = (file.metadata[k] for k in ("numbers", "nested", "empty"))
    assert numbers == list(range(1000))
    assert numbers != [1]
    assert (numbers[3], numbers[-1], numbers[2:4], 999 in numbers) == (3, 999, [2, 3], True)
    assert repr(numbers) == "<INT64[] of 1000: 0, 1, 2, 3, 4, 5, 6, 7, ...>"
    assert nested == [[["a"], ["b", "c"]], [["d"]]]
    assert file.metadata.type_of("nested") == "STRING[][][]"
    assert (list(empty), len(empty)) == ([], 0)


def test_data_are_views_of_the_file(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "a.gguf"
    values = rng.standard_normal((4, 8), dtype=np.float32)
    writer = GGUFWriter(path, "x")
    writer.add_tensor("t", values)
    writer.write()
    file = open_gguf(path)
    info = file.tensors["t"]
    data = info.data
    assert not data.flags.writeable
    assert not data.flags.owndata
    assert np.shares_memory(data, info.data)
    file.close()
    assert data.view(np.float32).reshape(info.shape).tolist() == values.tolist()
    with pytest.raises(InvalidArgument, match="closed"):
        _ = info.data


def test_data_may_have_gaps_and_any_order(little) -> None:
    tensors = [little.tensor("b", [4, 2], 0, 128), little.tensor("a", [4], 0, 0)]
    head = little.content([], tensors, 1)[:-1]
    payload = np.arange(40, dtype=np.float32)
    with open_gguf(little.file(head + payload.tobytes())) as file:
        assert list(file.tensors) == ["b", "a"]
        assert file.tensors["b"].shape == (2, 4)
        assert file.tensors["b"].data.view(np.float32).tolist() == list(range(32, 40))
        assert file.tensors["a"].data.view(np.float32).tolist() == list(range(4))
