"""Loading: reports progress, can be ended, and locks memory."""

from __future__ import annotations

import errno
import gc
import logging
import mmap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import Model
from unladen.backends import _host
from unladen.backends._host import advise, file_of, lock, memory_lock_limit
from unladen.backends._system import System
from unladen.backends._system_linux import Linux
from unladen.errors import MemoryLockError
from unladen.gguf import open_gguf
from unladen.runtime import loading, weights
from unladen.types import LoadProgress


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_tiny(tmp_path / "m.gguf", rng)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(loading, "INTERVAL_S", 0.0)


@pytest.mark.parametrize("options", [{}, {"use_mmap": False}, {"use_mlock": True}])
def test_progress(path: Path, options: dict[str, Any]) -> None:
    told: list[LoadProgress] = []
    with Model(path, devices=["cpu"], progress=told.append, **options) as model:
        total = sum(n.nbytes for n in model.engine.plan.blueprint.needs)
    assert told[-1].done_bytes == told[-1].total_bytes == total
    assert told[-1].fraction == 1 and told[-1].eta_s == 0
    done = [p.done_bytes for p in told]
    assert done == sorted(done) and len(done) > 10
    assert all(p.seconds >= 0 for p in told)


def test_only_pages_of_files_are_dropped(path: Path) -> None:
    with open_gguf(path) as file:
        mapped = next(t for t in file.tensors.values() if len(t.shape) > 1).data
        assert file_of(mapped) and file_of(mapped) is file_of(mapped[5:100])
        assert not file_of(mapped[::2]) and not file_of(mapped.copy())
        del mapped
    own = np.ones(1 << 16, np.uint8)
    for data in (own, np.broadcast_to(own[:1], own.shape), np.frombuffer(bytes(9), np.uint8),
                 np.frombuffer(mmap.mmap(-1, 4096), np.uint8)):
        assert not file_of(data)


def test_what_is_left() -> None:
    assert LoadProgress(25, 100, 2.0).eta_s == pytest.approx(6.0)
    assert LoadProgress(0, 100, 2.0).eta_s is None
    assert LoadProgress(0, 0, 0.0).fraction == 1


@pytest.mark.parametrize("use_mmap", [True, False])
def test_the_same_either_way(path: Path, use_mmap: bool) -> None:
    text = list(range(3, 50))
    with Model(path, devices=["cpu"]) as model:
        expected = model.logits(text)
    with Model(path, devices=["cpu"], use_mmap=use_mmap) as model:
        assert np.array_equal(model.logits(text), expected)
        before = {name: bytes(info.data) for name, info in model.tensors.items()}
    with Model(path, devices=["cpu"], use_mmap=False) as model:
        assert {name: bytes(info.data) for name, info in model.tensors.items()} == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("use_mmap", [True, False])
def test_an_end_from_within(path: Path, error: type[BaseException], use_mmap: bool) -> None:
    def stop(now: LoadProgress) -> None:
        if now.fraction > 0.5:
            raise error
    buffers = {id(b) for b in gc.get_objects() if isinstance(b, _host.HostBuffer)}
    n_threads = threading.active_count()
    with pytest.raises(error):
        Model(path, devices=["cpu"], progress=stop, use_mmap=use_mmap)
    gc.collect()
    left = [b for b in gc.get_objects() if isinstance(b, _host.HostBuffer)
            and id(b) not in buffers]
    assert not left and threading.active_count() <= n_threads + 1
    Path(path).unlink()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A system that locks at most 100 kB; returns how much it locked."""
    locked = [0]

    def refuse(data: np.ndarray) -> None:
        if locked[0] + data.nbytes > 100_000:
            raise MemoryLockError("Cannot allocate memory", requested=data.nbytes, limit=100_000)
        locked[0] += data.nbytes
    monkeypatch.setattr(weights, "lock", refuse)
    return lambda: locked[0]


def test_too_low_a_limit(path: Path, refusing: Callable[[], int], caplog: pytest.LogCaptureFixture
                         ) -> None:
    with caplog.at_level(logging.WARNING, "unladen"), \
            Model(path, devices=["cpu"], use_mlock=True) as model:
        assert model.generate([5], max_tokens=1).tokens
        total = sum(n.nbytes for n in model.engine.plan.blueprint.needs)
    (message,) = [r.getMessage() for r in caplog.records]
    assert f"{total} bytes" in message and "the limit is 100000 (RLIMIT_MEMLOCK)" in message
    assert f"ulimit -l {-(-total // 1024)}" in message
    assert refusing() > 0
    with pytest.raises(MemoryLockError, match="RLIMIT_MEMLOCK") as caught:
        Model(path, devices=["cpu"], use_mlock=True, strict=True)
    assert (caught.value.requested, caught.value.limit) == (total, 100_000)
    assert "ulimit -l" in caught.value.hint


class Refusing:
    """The C library of a system that locks nothing."""

    def mlock(self, address: object, size: object) -> int:
        import ctypes
        ctypes.set_errno(errno.ENOMEM)
        return -1


def test_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.zeros(100, np.uint8)
    monkeypatch.setattr(_host, "this_system", lambda: Linux(Refusing()))
    with pytest.raises(MemoryLockError, match="memory") as caught:
        lock(data)
    assert (caught.value.requested, caught.value.limit) == (100, memory_lock_limit())
    monkeypatch.setattr(_host, "this_system", System)
    with pytest.raises(MemoryLockError, match="this system"):
        lock(data)
    advise(data, "WILLNEED")


def test_advice_changes_nothing(tmp_path: Path, rng: np.random.Generator) -> None:
    """Advice changes no data, also where a range ends inside a page."""
    content = rng.integers(0, 256, 50_000).astype(np.uint8)
    (tmp_path / "file").write_bytes(content.tobytes())
    data = np.memmap(tmp_path / "file", np.uint8, "r")
    for advice in ("WILLNEED", "DONTNEED", "no such"):
        for part in (data, data[123:40_000], data[5:6], data[:0], data[4095:4097]):
            advise(part, advice)
            assert np.array_equal(data, content)
