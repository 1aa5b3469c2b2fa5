"""Packed copies of weights: found again as long as they are right, made anew where they aren't."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen.errors import InvalidArgument, UnladenError
from unladen.storage import packed
from unladen.storage.mapping import FileMapping
from unladen.storage.packed import Packed, PackedCache, Rows, packed_cache
from unladen.types import LoadProgress

BUILD = "vbmi-1"


class Weights:
    """Some rows of a file, and what a packer makes of them."""

    def __init__(self, path: Path, rng: np.random.Generator, n_bytes: tuple[int, ...]) -> None:
        path.write_bytes(rng.bytes(sum(n_bytes) + 100))
        self.path = path
        self.data = [rng.integers(0, 256, n, np.uint8) for n in n_bytes]
        self.known = [rng.standard_normal(i).astype(np.float32) for i in range(len(n_bytes))]
        self.n_packed = 0

    @property
    def mapping(self) -> FileMapping:
        with self.path.open("rb") as file:
            return FileMapping(file.fileno())

    @property
    def rows(self) -> list[Rows]:
        return [Rows(*self.mapping.identity, 100 * i, data.nbytes, data.nbytes, 0, known.size,
                     int(i != 1))
                for i, (data, known) in enumerate(zip(self.data, self.known, strict=True))]

    def pack(self, i: int) -> Packed:
        self.n_packed += 1
        return Packed(memoryview(self.data[i]), memoryview(self.known[i]))

    def check(self, cache: PackedCache, build: str = BUILD) -> FileMapping:
        found = cache.get(self.rows, build, self.pack)
        assert found is not None
        mapping, kept = found
        for i, one in enumerate(kept):
            rows, known = np.asarray(one.rows), np.asarray(one.known)
            assert rows.dtype == np.uint8 and np.array_equal(rows, self.data[i])
            assert known.dtype == np.float32 and np.array_equal(known, self.known[i])
            assert rows.ctypes.data % packed.LINE_BYTES == 0
        return mapping


@pytest.fixture
def weights(tmp_path: Path, rng: np.random.Generator) -> Weights:
    return Weights(tmp_path / "model", rng, (3000, 4096, 1))


@pytest.fixture
def cache(tmp_path: Path) -> PackedCache:
    return PackedCache(tmp_path / "new" / "folder")


def test_packed_once(cache: PackedCache, weights: Weights) -> None:
    weights.check(cache)
    assert weights.n_packed == 3
    weights.check(PackedCache(cache.folder))
    assert weights.n_packed == 3
    (path,) = cache.folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    some = cache.get(weights.rows[1:2], BUILD, weights.pack)
    assert some is not None and np.array_equal(np.asarray(some[1][0].rows), weights.data[1])
    assert weights.n_packed == 3


def test_another_version_of_the_file(cache: PackedCache, weights: Weights) -> None:
    weights.check(cache)
    os.utime(weights.path, ns=(1, 1))
    weights.check(cache)
    assert weights.n_packed == 6


def test_other_kernels(cache: PackedCache, weights: Weights) -> None:
    """Another level has a copy of its own; an older layout of the same makes room."""
    weights.check(cache)
    weights.check(cache, "avx512-1")
    assert weights.n_packed == 6 and len(list(cache.folder.iterdir())) == 2
    weights.check(cache, "vbmi-2")
    assert sorted(path.name.split(".")[1] for path in cache.folder.iterdir()) == [
        "avx512-1", "vbmi-2"]


def test_more_rows_replace_fewer(cache: PackedCache, weights: Weights) -> None:
    assert cache.get(weights.rows[:1], BUILD, weights.pack) is not None
    weights.check(cache)
    assert weights.n_packed == 4 and len(list(cache.folder.iterdir())) == 1


@pytest.mark.parametrize("spoil", [
    lambda data: data[:-1], lambda data: data[1:], lambda data: b"", lambda data: data[-5:],
    lambda data: data[:-packed.END.size] + packed.END.pack(1 << 60, packed.MAGIC),
    lambda data: data[:-packed.END.size] + packed.END.pack(0, packed.MAGIC),
    lambda data: bytes(len(data)),
    lambda data: data[:-packed.END.size - 8] + b"\xff" * 8 + data[-packed.END.size:]])
def test_broken_copies_are_replaced(cache: PackedCache, weights: Weights,
                                    spoil: Callable[[bytes], bytes]) -> None:
    weights.check(cache)
    (path,) = cache.folder.iterdir()
    path.write_bytes(spoil(path.read_bytes()))
    again = PackedCache(cache.folder)
    again.begin(weights.mapping)
    weights.check(again)
    again.finish()
    assert weights.n_packed == 6 and list(cache.folder.iterdir()) != [path]


def test_any_cut_is_noticed(cache: PackedCache, weights: Weights, rng: np.random.Generator) -> None:
    weights.check(cache)
    (path,) = cache.folder.iterdir()
    whole = path.read_bytes()
    for n_left in rng.choice(len(whole), 50, replace=False):
        path.write_bytes(whole[:n_left])
        assert packed._opened(path) is None
    path.write_bytes(whole)
    assert packed._opened(path) is not None


def test_begun_mapping_is_the_one_in_use(cache: PackedCache, weights: Weights) -> None:
    weights.check(cache)
    again = PackedCache(cache.folder)
    again.begin(weights.mapping)
    assert again._begun is not None
    begun = again._begun[1].mapping
    assert weights.check(again) is begun
    again.finish()
    again.stop()
    assert weights.check(again) is not begun


def test_what_nobody_uses_goes(cache: PackedCache, weights: Weights, tmp_path: Path,
                               rng: np.random.Generator) -> None:
    weights.check(cache)
    (old,) = cache.folder.iterdir()
    begun = cache.folder / f"x{packed.PART_SUFFIX}"
    begun.write_bytes(b"")
    other = Weights(tmp_path / "other", rng, (10, 10))
    now = time.time()
    for path, age in ((old, packed.UNUSED_S), (begun, packed.STALE_S)):
        os.utime(path, (now - age + 600,) * 2)
    other.check(cache)
    assert old.exists() and begun.exists()
    weights.check(cache)
    assert old.stat().st_mtime > now - 600, "it was used"
    for path, age in ((old, packed.UNUSED_S), (begun, packed.STALE_S)):
        os.utime(path, (now - age - 600,) * 2)
    Weights(tmp_path / "third", rng, (10, 10)).check(cache)
    assert not old.exists() and not begun.exists()
    assert len(list(cache.folder.iterdir())) == 2


def test_no_room(weights: Weights, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    with caplog.at_level(logging.WARNING, "unladen"):
        assert PackedCache(folder).get(weights.rows, BUILD, weights.pack) is None
    assert "can't be kept" in caplog.text and packed.VARIABLE in caplog.text
    with pytest.raises(UnladenError, match="can't be kept") as caught:
        PackedCache(folder, strict=True).get(weights.rows, BUILD, weights.pack)
    assert packed.VARIABLE in str(caught.value.hint)


def test_disk_that_is_too_small(cache: PackedCache, weights: Weights,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, offset: int, n_bytes: int) -> None:
        assert n_bytes > sum(data.nbytes for data in weights.data)
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)  # not everywhere
    assert cache.get(weights.rows, BUILD, weights.pack) is None
    assert not weights.n_packed and not list(cache.folder.iterdir())


def test_progress_may_end_it(tmp_path: Path, weights: Weights) -> None:
    seen: list[LoadProgress] = []

    def stop(now: LoadProgress) -> None:
        seen.append(now)
        if len(seen) == 2:
            raise KeyboardInterrupt
    cache = PackedCache(tmp_path / "folder", progress=stop)
    with pytest.raises(KeyboardInterrupt):
        cache.get(weights.rows, BUILD, weights.pack)
    assert 0 < seen[0].done_bytes < seen[1].done_bytes < seen[1].total_bytes
    assert not list(cache.folder.iterdir())


def test_progress_comes_to_its_end(tmp_path: Path, weights: Weights) -> None:
    seen: list[LoadProgress] = []
    weights.check(PackedCache(tmp_path / "folder", progress=seen.append))
    assert len(seen) == 4 and seen[-1].done_bytes == seen[-1].total_bytes
    (path,) = (tmp_path / "folder").iterdir()
    assert seen[-1].total_bytes == path.stat().st_size


def test_somebody_else_removes_it(cache: PackedCache, weights: Weights,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as it has its name: whoever wrote it has it mapped."""
    rename = Path.rename

    def lose(path: Path, to: Path) -> Path:
        rename(path, to).unlink()
        return to
    monkeypatch.setattr(Path, "rename", lose)
    weights.check(cache)
    assert not list(cache.folder.iterdir())


def test_whole_copies_of_others_stay(cache: PackedCache, weights: Weights,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by somebody else after it was looked for."""
    weights.check(cache)
    (path,) = cache.folder.iterdir()
    find, n_calls = PackedCache._find, 0

    def late(self: PackedCache, wanted: list[Rows], build: str) -> object:
        nonlocal n_calls
        n_calls += 1
        return find(self, wanted, build) if n_calls > 1 else None
    monkeypatch.setattr(PackedCache, "_find", late)
    weights.check(cache)
    assert list(cache.folder.iterdir()) == [path]


def test_what_nobody_wants_is_not_mapped_to_its_end(
        cache: PackedCache, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    weights.check(cache)
    calls: list[str] = []

    class Ahead:
        def __init__(self, *of: object) -> None:
            pass

        def finish(self) -> None:
            calls.append("finish")

        def stop(self) -> None:
            calls.append("stop")
    monkeypatch.setattr(packed, "PagesAhead", Ahead)
    for is_used in (False, True):
        again = PackedCache(cache.folder)
        again.begin(weights.mapping)
        if is_used:
            weights.check(again)
        again.finish()
    assert calls == ["stop", "finish"]


def test_unused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "unladen"):
        PackedCache(tmp_path).finish()
    assert "nothing is kept packed" in caplog.text
    with pytest.raises(UnladenError, match="nothing is kept packed"):
        PackedCache(tmp_path, strict=True).finish()


WRITER = """
import sys
import numpy as np
from pathlib import Path
from unladen.storage.packed import Packed, PackedCache, Rows
rows = [Rows(1, 2, 3, i, 1 << 20, 1 << 20, 0, 4, 1) for i in range(8)]
def pack(i):
    return Packed(memoryview(np.full(1 << 20, i, np.uint8)),
                  memoryview(np.full(4, i, np.float32)))
mapping, kept = PackedCache(Path(sys.argv[1])).get(rows, "vbmi-1", pack)
for i, one in enumerate(kept):
    assert (np.asarray(one.rows) == i).all() and (np.asarray(one.known) == i).all()
"""


def test_several_processes(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "folder")])
               for _ in range(4)]
    assert [one.wait(60) for one in running] == [0] * 4
    assert {path.suffix for path in (tmp_path / "folder").iterdir()} == {packed.SUFFIX}


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(wanted: bool | str | Path) -> Path | None:
        cache = packed_cache(wanted, None, in_place=True, strict=False, progress=None)
        return cache and cache.folder
    assert made(False) is None
    assert made(str(tmp_path)) == made(tmp_path) == tmp_path
    monkeypatch.delenv(packed.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert made(True) == tmp_path / ".cache" / "unladen" / "packed"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert made(True) == tmp_path / "xdg" / "unladen" / "packed"
    monkeypatch.setenv(packed.VARIABLE, str(tmp_path / "own"))
    assert made(True) == tmp_path / "own"
    with pytest.raises(InvalidArgument, match="packed_cache"):
        packed_cache(True, None, in_place=False, strict=False, progress=None)
    assert packed_cache(False, None, in_place=False, strict=False, progress=None) is None
