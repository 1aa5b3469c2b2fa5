"""Memory in several pieces, as on devices that limit the size of a buffer or of a binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from unladen import Model
from unladen.backends import backend_of
from unladen.backends._gpu.target import WORKGROUP_BYTES
from unladen.backends.base import BackendOptions, Use
from unladen.backends.wgpu import gpu as gpu_module
from unladen.backends.wgpu.backend import WgpuBackend
from unladen.backends.wgpu.gpu import Gpu
from unladen.backends.wgpu.program import WgpuProgram
from unladen.errors import OutOfMemory
from unladen.graph.graph import KVSpec

Rng = np.random.Generator
SMALL = "wgpu:9"
"""A device of its own, whose limits these tests lower."""


@pytest.fixture
def backend() -> WgpuBackend:
    found = backend_of("wgpu")
    assert isinstance(found, WgpuBackend)
    return found


@pytest.fixture
def small(backend: WgpuBackend) -> Iterator[Gpu]:
    backend.open(SMALL, BackendOptions())
    gpu = backend.gpu(SMALL)
    kept = gpu.max_binding, gpu.max_buffer, gpu.workgroup_bytes
    yield gpu
    gpu.max_binding, gpu.max_buffer, gpu.workgroup_bytes = kept


@pytest.mark.parametrize("use", ["weights", "arena"])
@pytest.mark.parametrize("row_bytes", [1, 34, 144, 1000])
def test_bytes_come_back_from_pieces(backend: WgpuBackend, small: Gpu, rng: Rng, row_bytes: int,
                                     use: Use) -> None:
    small.max_buffer = 10240
    n = row_bytes * (50_000 // row_bytes)
    buffer = backend.alloc(small.device, n, use, row_bytes)
    expected = rng.integers(0, 256, n, np.uint8)
    backend.write(buffer, expected)
    for _ in range(5):
        start = int(rng.integers(0, n))
        data = rng.integers(0, 256, min(int(rng.integers(0, 25_000)), n - start), np.uint8)
        backend.write(buffer, data, start)
        expected[start:start + len(data)] = data
    assert np.array_equal(backend.read(buffer, n), expected)
    assert np.array_equal(backend.read(buffer, n // 2, n // 3), expected[n // 3:n // 3 + n // 2])


def test_weights_in_shared_memory_take_no_way_through_the_queue(
        backend: WgpuBackend, small: Gpu, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small.maps_weights:
        pytest.skip("the adapter has memory of its own, or maps no buffers of kernels")
    monkeypatch.setattr(small, "queue", None)
    buffer = backend.alloc(small.device, 4096, "weights")
    data = rng.integers(0, 256, 4096, np.uint8)
    backend.write(buffer, data)
    monkeypatch.undo()
    assert np.array_equal(backend.read(buffer, 4096), data)


class Counting:
    """A queue that counts the bytes written to it."""

    def __init__(self, queue: Any) -> None:
        self.queue, self.n_bytes = queue, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)

    def write_buffer(self, buffer: Any, offset: int, data: Any) -> None:
        self.queue.write_buffer(buffer, offset, data)
        self.n_bytes += data.nbytes


@pytest.mark.parametrize("piece", [1000, 5000, 50_000])
def test_what_waits_in_the_queue_is_bounded(backend: WgpuBackend, rng: Rng, piece: int,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pieces are in which weights come, and without any other work."""
    monkeypatch.setattr(gpu_module, "WRITE_BYTES", 8000)
    backend.open("wgpu:14", BackendOptions())
    gpu = backend.gpu("wgpu:14")
    gpu.maps_weights = False
    buffer = backend.alloc(gpu.device, 200_000, "weights")
    queue: Any = Counting(gpu.queue)
    monkeypatch.setattr(gpu, "queue", queue)
    submitted: dict[int, int] = {}
    done = most = 0
    submit, wait_for = gpu.submit, gpu.wait_for

    def submitting(*commands: Any) -> int:
        number = submit(*commands)
        submitted[number] = queue.n_bytes
        return number

    def waiting(number: int) -> None:
        nonlocal done, most
        most = max(most, queue.n_bytes - done)
        wait_for(number)
        done = submitted.get(number, done)
    monkeypatch.setattr(gpu, "submit", submitting)
    monkeypatch.setattr(gpu, "wait_for", waiting)
    data = rng.integers(0, 256, 200_000, np.uint8)
    for start in range(0, len(data), piece):
        backend.write(buffer, data[start:start + piece], start)
    assert queue.n_bytes == len(data) and done >= len(data) - 4 * 8000
    assert most <= 4 * 8000
    assert np.array_equal(backend.read(buffer, len(data)), data)


@pytest.mark.parametrize("method", ["map_sync", "write_mapped"])
def test_an_interrupted_write_leaves_nothing_mapped(
        backend: WgpuBackend, small: Gpu, rng: Rng, monkeypatch: pytest.MonkeyPatch, method: str
        ) -> None:
    """Work that used a mapped buffer would end the process."""
    if not small.maps_weights:
        pytest.skip("the adapter has memory of its own, or maps no buffers of kernels")
    buffer, other = (backend.alloc(small.device, 4096, "weights") for _ in range(2))
    first, second = rng.integers(0, 256, (2, 4096), np.uint8)
    backend.write(buffer, first)
    kind = type(buffer.parts[0].buffer)  # type: ignore[attr-defined]

    def interrupted(mine: Any, *arguments: Any) -> None:
        if method == "map_sync":
            mine.map_async(*arguments)
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(kind, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            backend.write(buffer, second)
    assert backend.copy(other, 0, buffer, 0, 4096)
    assert np.array_equal(backend.read(other, 4096), first)
    backend.write(buffer, second)
    assert np.array_equal(backend.read(buffer, 4096), second)


def test_an_interrupt_while_a_mapping_ends(backend: WgpuBackend, small: Gpu, rng: Rng,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    if not small.maps_weights:
        pytest.skip("the adapter has memory of its own, or maps no buffers of kernels")
    buffer = backend.alloc(small.device, 4096, "weights")
    data = rng.integers(0, 256, 4096, np.uint8)
    with monkeypatch.context() as patch:
        patch.setattr(gpu_module, "end_mapping", interrupt)
        with pytest.raises(KeyboardInterrupt):
            backend.write(buffer, data[::-1].copy())
    backend.write(buffer, data)
    assert np.array_equal(backend.read(buffer, 4096), data)


def interrupt(_: Any) -> None:
    raise KeyboardInterrupt


def test_copies_within_a_buffer(backend: WgpuBackend, small: Gpu, rng: Rng) -> None:
    buffer = backend.alloc(small.device, 8000, "kv")
    data = rng.integers(0, 256, 8000, np.uint8)
    backend.write(buffer, data)
    for n in (2000, 6, 0):
        if backend.copy(buffer, 4000, buffer, 400, n):
            data[4000:4000 + n] = data[400:400 + n]
    assert np.array_equal(backend.read(buffer, 8000), data)


@pytest.mark.parametrize("arch", ["llama", "qwen3moe"])
@pytest.mark.parametrize("quant", ["F32", "Q8_0"])
def test_weights_cut_by_rows_change_nothing(make_model: Callable[..., Path], small: Gpu, arch: str,
                                            quant: str) -> None:
    path = make_model(arch, quant=quant, n_vocab=1100, n_embd=64, n_heads=4, n_ff=256)
    ids = list(range(4, 15))
    options = {"batch_size": 2, "max_seqs": 1, "context_size": 32}
    with Model(path, devices=["wgpu:0"], **options) as model:
        whole = model.logits(ids)
        largest = max(t.nbytes for t in model.tensors.values())
    small.max_binding = largest // 4 // 256 * 256
    small.max_buffer = largest // 2 // 256 * 256
    with Model(path, devices=[SMALL], **options) as model:
        parts = [len(p.buffer.parts) for p in model.engine.plan._placed.values()]
        assert max(parts) > 1
        np.testing.assert_array_equal(model.logits(ids), whole)


@pytest.mark.parametrize("n_tokens", [1, 5, 20])
@pytest.mark.parametrize("formats", [("F32", "Q8_0"), ("Q4_0", "F16"), ("Q8_0", "Q8_0")])
@pytest.mark.parametrize("residual", [False, True])
def test_gate_and_up_in_different_pieces(backend: WgpuBackend, small: Gpu, rng: Rng,
                                         formats: tuple[str, str], n_tokens: int, residual: bool
                                         ) -> None:
    small.max_binding = 32 << 10
    m = Maker(rng, n_tokens)
    x = m.input("T", 256, values=rng.standard_normal((n_tokens, 256)) / 16)
    more = [m.input("T", 100)] if residual else []
    case = m.case("linear", x, *more, weights={
        f"w{i}": m.weight(f"w{i}", 100, 256, quant=quant) for i, quant in enumerate(formats)},
                  attrs={"act": "silu", **({"residual": True} if residual else {})})
    run = running.Bench(backend, case, BackendOptions(precise=True), SMALL)
    running.check(case, run.run(), precise=True, what=str(formats))


@pytest.mark.parametrize(("k_dim", "tokens"), [(512, 4), (1024, 2)])
def test_long_rows_in_little_memory_of_a_workgroup(backend: WgpuBackend, small: Gpu, rng: Rng,
                                                   k_dim: int, tokens: int) -> None:
    small.workgroup_bytes = WORKGROUP_BYTES
    m = Maker(rng, 21, n_seqs=2, max_history=40, kv_types=("F16", "F16"))
    spec = KVSpec(0, 1, k_dim, 64)
    case = m.case("attention", m.input("T", 3 * k_dim), state=spec,
                  attrs={"n_heads": 3, "scale": k_dim ** -0.5}, kv=m.cache(spec))
    run = running.Bench(backend, case, device=SMALL)
    assert isinstance(run.program, WgpuProgram) and run.program.lowered.tile_tokens == tokens
    running.check(case, run.run(), precise=True, what="long rows")


def test_too_much_at_once_is_an_error_with_advice(make_model: Callable[..., Path], small: Gpu
                                                  ) -> None:
    path = make_model("llama")
    small.max_binding = 4096
    with pytest.raises(OutOfMemory, match=SMALL) as error:
        Model(path, devices=[SMALL])
    assert "context_size" in error.value.hint
