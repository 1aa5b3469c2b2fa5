"""Pages of mapped files are mapped ahead and given back; no other pages are."""

from __future__ import annotations

import mmap
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen._native import gguf as native
from unladen.gguf import GGUFWriter, StringArray, open_gguf
from unladen.gguf.reader import _ranges
from unladen.storage.mapping import map_file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing happens ahead")

N_BYTES = 5 * (1 << 20) + 123
AROUND = 2 << 20
"""Linux maps and drops at most this many bytes around a page: the size of a huge page."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng()
    path = tmp_path / "file"
    path.write_bytes(rng.bytes(N_BYTES))
    return path


def resident(path: Path) -> int:
    """Bytes of ``path`` in this process's page table."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def test_all_of_a_file(path: Path) -> None:
    mapping = map_file(str(path))
    assert resident(path) == 0
    ahead = native.PagesAhead(mapping)
    ahead.finish()
    assert resident(path) == -(-N_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
    ahead.stop()
    native.drop_pages(np.frombuffer(mapping, np.uint8), 2)
    assert resident(path) <= mmap.PAGESIZE, "the last page isn't full"
    assert mapping[:] == path.read_bytes()


def test_parts_of_a_file(path: Path) -> None:
    mapping = map_file(str(path))
    ranges = np.array([[1 << 20, 1 << 20], [2 << 20, (2 << 20) + 100_000]], np.uint64)
    native.PagesAhead(mapping, ranges).finish()
    assert 100_000 <= resident(path) <= 100_000 + AROUND


def test_a_file_is_mapped_to_its_end_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(bytes(19 * mmap.PAGESIZE))
    mappings = [map_file(str(path)) for _ in range(32)]  # most are next to one another
    for mapping in mappings:
        native.PagesAhead(mapping).finish()
    assert resident(path) == len(mappings) * 19 * mmap.PAGESIZE


@pytest.mark.parametrize("bad", [[0, N_BYTES + 1], [5, 4], [2**64 - 1, 2**64 - 1]])
def test_ranges_that_are_none(path: Path, bad: list[int]) -> None:
    with pytest.raises(ValueError, match="range"):
        native.PagesAhead(map_file(str(path)), np.array([bad], np.uint64))


def test_only_whole_pages_are_given_back(path: Path) -> None:
    mapping = map_file(str(path))
    native.PagesAhead(mapping).finish()
    before = resident(path)
    data = np.frombuffer(mapping, np.uint8)
    native.drop_pages(data[1:mmap.PAGESIZE], 2)
    assert resident(path) == before
    native.drop_pages(data[1:2 * mmap.PAGESIZE + 1], 2)
    assert before - AROUND <= resident(path) < before


def test_stopping_early_and_dropping_is_no_trouble(path: Path) -> None:
    for _ in range(20):
        ahead = native.PagesAhead(map_file(str(path)))
        ahead.stop()
        ahead.stop()
        ahead.finish()


def test_a_file_that_has_become_shorter_is_left_alone(path: Path) -> None:
    mapping = map_file(str(path))
    with open(path, "r+b") as file:
        file.truncate(1 << 20)
    native.PagesAhead(mapping).finish()
    assert resident(path) <= 1 << 20


def test_experts_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, np.random.default_rng())
    with open_gguf(path) as file:
        tensors = list(file.tensors.values())
        every = _ranges(tensors)
        assert (every[1:, 0] >= every[:-1, 1] + mmap.PAGESIZE).all(), "stretches are joined"
        for t in tensors:
            assert any(first <= t.offset and t.offset + t.nbytes <= last for first, last in every)
        (only,) = _ranges(tensors[:1])
        assert list(only) == [tensors[0].offset, tensors[0].offset + tensors[0].nbytes]
        assert _ranges([]).shape == (0, 2)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_pages_that_were_replaced_stay(tmp_path: Path, is_replaced: bool,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, np.random.default_rng())
    dropped: list[int] = []
    monkeypatch.setattr(native, "drop_pages", lambda data, n_threads: dropped.append(data.size))
    mapping = map_file(str(path))
    with open_gguf(path, mapping):
        mapping.is_replaced = is_replaced
    assert dropped == ([] if is_replaced else [path.stat().st_size])


def test_a_file_that_is_begun_goes_on_or_stops(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, np.random.default_rng())
    mapping = map_file(str(path))
    with open_gguf(path, mapping) as file:
        file.map_ahead(native.PagesAhead(mapping))
        file.finish_mapping()
        assert resident(path) >= path.stat().st_size
        weight = next(iter(file.tensors.values())).data
        before = bytes(weight)
    assert bytes(weight) == before, "views outlive the file"


def test_what_stands_before_the_tensors_is_given_back_and_comes_again(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    writer = GGUFWriter(tmp_path / "long.gguf", "x")
    numbers = rng.integers(1 << 31, size=1 << 18, dtype=np.int32)
    writer.set("x.numbers", numbers, "INT32")
    weight = rng.standard_normal((256, 256), np.float32)
    writer.add_tensor("w", weight)
    (path,) = writer.write()
    with open_gguf(path) as file:
        read = file.metadata["x.numbers"]
        assert np.array_equal(read, numbers)
        assert np.array_equal(file.tensors["w"].data.view(np.float32), weight.ravel())
        before = resident(path)
        file.drop_header()
        assert before - resident(path) >= numbers.nbytes - mmap.PAGESIZE, "what has been read"
        assert resident(path) >= weight.nbytes - mmap.PAGESIZE
        assert np.array_equal(file.metadata["x.numbers"], numbers)
    assert np.array_equal(read, numbers), "views outlive the file"


def test_what_was_noted_of_strings_is_given_back_and_comes_again(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "texts.gguf", "x")
    texts = [str(n) * (n % 7) for n in range(50_000)]
    writer.set("x.texts", texts)
    writer.add_tensor("w", np.zeros((32, 32), np.float32))
    (path,) = writer.write()
    with open_gguf(path) as file:
        read = file.metadata["x.texts"]
        assert isinstance(read, StringArray)
        offsets, lengths = read.offsets, read.lengths
        for _ in range(2):
            noted = weakref.ref(read._starts)
            assert read == texts
            file.drop_header()
            assert noted() is None and len(read) == len(texts)
        assert np.array_equal(read.offsets, offsets) and np.array_equal(read.lengths, lengths)
    assert read == texts, "views outlive the file"


def test_of_a_first_part_without_tensors_everything_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "metadata.gguf"
    writer = GGUFWriter(path, "x")
    numbers = np.random.default_rng().integers(1 << 31, size=1 << 18, dtype=np.int32)
    writer.set("x.numbers", numbers, "INT32")
    writer.write()
    with open_gguf(path) as file:
        assert np.array_equal(file.metadata["x.numbers"], numbers)
        file.drop_header()
        assert resident(path) <= mmap.PAGESIZE
        assert np.array_equal(file.metadata["x.numbers"], numbers)
