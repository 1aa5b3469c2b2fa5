"""The backend against a fake Objective-C runtime: messages, order, references, results."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity.recipes import error

import cases
from backends._gpu.storing import Norming, Storing
from backends.metal.faking import GIB, Fake, faked
from cases import running
from cases.base import Maker
from emulator.backend import EmulatorBackend
from engine.test_fork import in_child
from unladen import Model
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering import registry
from unladen.backends.base import BackendOptions
from unladen.backends.metal import objc, program
from unladen.backends.metal.backend import VARIABLE, MetalBackend
from unladen.backends.metal.device import Gpu, Memory
from unladen.errors import (
    BackendNotInitialised,
    DeviceLost,
    InvalidArgument,
    OutOfMemory,
    UnladenError,
)

Rng = np.random.Generator
RAN_BY = "fake"
OPS = sorted(op for op, how in registry().items() if all(map(c_texts.has_kernel, how.kernels)))
TYPES = {None: {"v"}, ctypes.c_bool: {"B"}, ctypes.c_uint64: {"Q"}, ctypes.c_int64: {"q"},
         ctypes.c_void_p: {"@", "^v", "@?"}, ctypes.c_char_p: {"r*", "r^v"},
         objc.Size: {"{?=QQQ}"}, ctypes.POINTER(ctypes.c_void_p): {"^@"}}
"""The type encodings that a type of ctypes stands for."""


@pytest.fixture
def fake() -> Iterator[Fake]:
    with faked() as fake:
        yield fake


def test_messages_have_the_methods_types(fake: Fake) -> None:
    for name, types in objc.MESSAGES.items():
        wanted = fake.library.fake_types(name.encode()).decode().split()
        assert len(wanted) == len(types) == 1 + name.count(":") or not name.count(":"), name
        for mine, encoded in zip(types, wanted, strict=True):
            assert encoded in TYPES[mine], (name, mine, encoded)


@pytest.mark.parametrize("op", OPS)
def test_ops(fake: Fake, op: str, rng: Rng) -> None:
    """A few cases of each, within the bound."""
    backend, n = MetalBackend(), 0
    backend.open("metal:0", BackendOptions())
    for case in islice(cases.registry()[op](rng), int(rng.integers(3)), None, 5):
        if backend.supports(backend.gpu("metal:0").device, case.node):
            bench = running.Bench(backend, case)
            running.check(case, bench.run(), precise=False, what="metal")
            n += 1
    assert n


def test_threads_meet_after_kernels_that_keep_frames(fake: Fake, rng: Rng) -> None:
    """Those of the emulator do, and the fake's don't."""
    running.Bench(EmulatorBackend(), next(cases.registry()["argmax"](rng))).run()
    test_ops(fake, "argmax", rng)


@pytest.mark.parametrize("style", ["norm", "neox"])
def test_products_and_norms_write_the_cache(fake: Fake, style: str, rng: Rng) -> None:
    backend = MetalBackend()
    backend.open("metal:0", BackendOptions())
    case = Storing(rng, style, 2, formats=["F32", "F32", "F16"], biases=True)
    assert case.check(backend, joined=True) == ["matvec"] * 2
    norms = Norming(rng, style, 2, kv_types=("F16", "F16"))
    assert norms.check(backend, joined=True) == ["norm_write"]


def test_a_model_token_for_token(fake: Fake, shared: Path) -> None:
    name = "stories260K-f32"
    case = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"][0]
    with Model(shared / f"models/{name}.gguf", devices=["metal:0"], kv_type="f32") as model:
        assert {line.split()[2] for line in model.placement().splitlines()} == {"metal:0"}
        fake.library.fake_forget()
        result = model.generate(case["prompt"], temperature=0.0, max_tokens=24)
        n_barriers, n = fake.library.fake_barriers(), fake.library.fake_dispatches()
        log = fake.log()
    assert result.tokens == case["tokens"][:24]
    assert 0 < n_barriers < n
    n_encoders = sum(line.endswith("DispatchType:") for line in log)
    assert log.count("MTLComputeCommandEncoder endEncoding") == n_encoders
    assert sum(line.endswith("setComputePipelineState:") for line in log) == n


def test_weights_stay_in_the_mapped_file(fake: Fake, shared: Path) -> None:
    path = shared / "models/stories260K-q8_0.gguf"
    found = {}
    for use_mmap in (True, False):
        fake.library.fake_forget()
        with Model(path, devices=["metal:0"], kv_type="f32", use_mmap=use_mmap) as model:
            (memory,) = [m for m in model.engine.plan.blueprint.memory.devices
                         if m.device.name == "metal:0"]
            found[use_mmap] = model.logits([3, 4, 5])
        wrapped = sum("BytesNoCopy" in line for line in fake.log())
        assert (wrapped > 20) == (memory.mapped_bytes > memory.weight_bytes) == use_mmap
    assert np.array_equal(found[True], found[False])


def test_everything_is_released(fake: Fake, make_model: Callable[..., Path]) -> None:
    path = make_model("llama", n_embd=64, n_layers=2)
    kinds = ("MTLBuffer", "MTLCommandBuffer", "MTLCommandQueue", "MTLLibrary", "MTLFunction",
             "MTLComputePipelineState", "MTLComputeCommandEncoder", "MTLBlitCommandEncoder",
             "MTLCompileOptions", "NSString", "NSError", "NSArray")
    before = {kind: fake.live(kind) for kind in kinds}
    with Model(path, devices=["metal:0"]) as model:
        model.generate(list(range(3, 20)), temperature=0.0, max_tokens=4)
        assert fake.live("MTLBuffer") > 5 + before["MTLBuffer"]
    del model
    gc.collect()
    assert {kind: fake.live(kind) for kind in kinds} == before


def test_a_missing_barrier_shows(fake: Fake, make_model: Callable[..., Path],
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake turns around what no barrier keeps in order."""
    path, found = make_model("llama", n_embd=64, n_layers=1), []
    real = program.in_order
    for waits in (True, False):
        def in_order(running: Any, waits: bool = waits) -> Any:
            for started in real(running):
                yield (started if waits else
                       program.Started(started.bound, started.groups, started.threads, False))
        monkeypatch.setattr(program, "in_order", in_order)
        try:
            with Model(path, devices=["metal:0"], kv_type="f32", strict=True) as model:
                found.append(model.logits([3, 4, 5]))
        except UnladenError:
            return  # the trial of the kernels told it
    assert error(found[1], found[0]) > 1e-3


def test_writes_and_reads_keep_their_order(fake: Fake, rng: Rng) -> None:
    """Work runs late, so what doesn't wait or go through the device is seen."""
    backend = MetalBackend()
    device = backend.open("metal", BackendOptions())
    a, b = (backend.alloc(device, 4096, "arena") for _ in range(2))
    first, second = (rng.integers(0, 256, 4096).astype(np.uint8) for _ in range(2))
    backend.write(a, first)
    assert backend.copy(b, 0, a, 0, 4096)
    backend.write(a, second)
    later = backend.fetch(a, 4096)
    backend.write(a, first)
    assert np.array_equal(later(), second)
    assert np.array_equal(backend.read(b, 4096), first)
    assert backend.copy(a, 8, a, 0, 64)
    assert np.array_equal(backend.read(a, 64, 8), first[:64])
    backend.sync(device)


def test_memory_is_counted(fake: Fake) -> None:
    fake.machine(most_bytes=GIB)
    backend = MetalBackend()
    device = backend.open("metal:0", BackendOptions())
    assert device.memory_bytes == GIB and device.maps_files and not device.is_host
    free = backend.free_bytes(device)
    buffer = backend.alloc(device, 1 << 20, "arena")
    assert backend.free_bytes(device) <= free - (1 << 20)
    del buffer
    with pytest.raises(OutOfMemory) as told:
        backend.alloc(device, 2 * GIB, "kv")
    assert told.value.requested == 2 * GIB and told.value.device == "metal:0"
    with pytest.raises(OutOfMemory):
        Memory(backend.gpu("metal:0"), GIB)
    odd = np.zeros(99, np.uint8)[1:]
    assert backend.wrap(device, odd) is None


@pytest.mark.parametrize(("code", "kind", "text"), [
    (2, DeviceLost, "it took too long"), (8, OutOfMemory, "metal:0"), (11, DeviceLost, "removed"),
    (99, UnladenError, "a step failed: planted")])
def test_a_failed_step_is_told(fake: Fake, rng: Rng, code: int, kind: type[UnladenError],
                               text: str) -> None:
    backend = MetalBackend()
    m = Maker(rng, 3)
    bench = running.Bench(backend, m.case("add", m.input("T", 4), m.input("T", 4)))
    first = bench.run()
    fake.fail(code)
    with pytest.raises(kind, match=text):
        bench.run()
    fake.fail(0)
    with pytest.raises(kind):  # the contents of its memory are unknown
        bench.run()
    bench = running.Bench(backend, bench.case)
    assert np.array_equal(bench.run()[0], first[0])


def test_a_kernel_that_does_not_compile(fake: Fake, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.h").write_text("#bind out float y\n\nKERNEL(wrong) { y[0] = what; }\n")
    monkeypatch.setattr(c_texts, "_shelf", lambda: c_texts.Shelf(tmp_path, ".h", "c"))
    gpu = Gpu("metal:8", 8, frozenset(), set())
    with pytest.raises(UnladenError, match="wrong doesn't compile") as told:
        gpu.compiled("wrong", "", {"WG": 64})
    assert "wrong.h:3" in str(told.value) and "what" in str(told.value)


@pytest.mark.parametrize(("machine", "why"), [
    ({"unified": False}, "Fake M1 can't be used: its memory isn't the processor's"),
    ({"family": False}, "can't add over a SIMD group"),
    ({"n_devices": 0}, "lists no device")])
def test_a_machine_that_lacks_something(fake: Fake, machine: dict[str, Any], why: str) -> None:
    fake.machine(**machine)
    backend = MetalBackend()
    assert not backend.devices() and why in backend.why_none()
    with pytest.raises(BackendNotInitialised, match="metal:0 is not present") as told:
        backend.open("metal:0", BackendOptions())
    assert why in told.value.hint


def test_features(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = MetalBackend().devices()
    assert device.features == (("subgroups", True),)
    monkeypatch.setenv(VARIABLE, "none")
    (device,) = MetalBackend().devices()
    assert device.features == (("subgroups", False),)
    monkeypatch.setenv(VARIABLE, "tensor_cores")
    with pytest.raises(InvalidArgument, match="tensor_cores is no ability"):
        MetalBackend().devices()


def test_what_was_closed_says_so(fake: Fake) -> None:
    backend = MetalBackend()
    device = backend.open("metal:0", BackendOptions())
    buffer = backend.alloc(device, 64, "arena")
    backend.close(device)
    for use in (lambda: backend.read(buffer, 64), lambda: backend.alloc(device, 64, "arena")):
        with pytest.raises(BackendNotInitialised, match="closed"):
            use()


def test_a_forked_child_is_told(fake: Fake) -> None:
    assert MetalBackend().devices()

    def child() -> None:
        with pytest.raises(BackendNotInitialised, match="forked"):
            MetalBackend().open("metal:0", BackendOptions())
    in_child(child)


@pytest.mark.skipif(sys.platform == "darwin", reason="this is about other systems")
def test_elsewhere_it_says_why() -> None:
    objc.forget()
    backend = MetalBackend()
    assert not backend.devices() and "Metal is part of macOS" in backend.why_none()
    with pytest.raises(BackendNotInitialised, match="metal:0 is not present"):
        backend.open("metal:0", BackendOptions())
