"""Whatever goes wrong on a device is an error of ours that says what to do."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from engine.test_fork import in_child
from unladen import Model
from unladen.backends import backend_of
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.target import Constants
from unladen.backends.base import BackendOptions
from unladen.backends.opencl import device, driver, features, platforms
from unladen.backends.opencl.backend import OpenClBackend
from unladen.backends.opencl.device import Gpu, Memory
from unladen.errors import (
    BackendNotInitialised,
    DeviceLost,
    InvalidArgument,
    OutOfMemory,
    UnladenError,
)


@pytest.fixture
def gpu() -> Gpu:
    return Gpu("opencl:8", 8, set())


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Devices are looked for again, and again afterwards."""
    platforms.found.cache_clear()
    driver.library.cache_clear()
    yield
    platforms.found.cache_clear()
    driver.library.cache_clear()


@pytest.mark.parametrize(("refusal", "name"), [
    ("doesn't compile", "opencl:9"), ("runs with 16 threads at most", "opencl:10")])
def test_a_kernel_that_the_driver_refuses_gives_way_to_the_plain_one(
        refusal: str, name: str, make_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    """It refuses those for integer products, which this device is said to have."""
    monkeypatch.setenv(features.VARIABLE, "int_dot")
    assemble, most, coded = c_texts.assemble, device.most_threads, [False]
    compiles = refusal != "doesn't compile"

    def text_of(kernel: str, quant: str, constants: Constants, port: Path) -> c_texts.Source:
        made = assemble(kernel, quant, constants, port)
        coded[0] = bool(constants.get("INT_DOT"))
        more = "\n#error no such instruction\n" if coded[0] and not compiles else ""
        return replace(made, text=made.text + more)

    def threads(*program: Any) -> int:
        return 16 if coded[0] and compiles else most(*program)
    monkeypatch.setattr(c_texts, "assemble", text_of)
    monkeypatch.setattr(device, "most_threads", threads)
    path, prompt = make_model("llama", quant="Q4_0", n_embd=64, n_ff=96), [3, 4, 5, 6]
    with caplog.at_level(logging.WARNING), Model(path, devices=[name]) as model:
        found = model.logits(prompt)
    said = [r.getMessage() for r in caplog.records if refusal in r.getMessage()]
    assert said and all("Q4_0 by int_dot" in s and "plain kernels are used" in s for s in said)
    with Model(path, devices=["reference"]) as model:
        np.testing.assert_allclose(found, model.logits(prompt), rtol=0, atol=1e-3)


def test_no_library(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LIBRARIES", ("libNoOpenCL.so.9",))
    backend = OpenClBackend()
    assert not backend.devices() and "no OpenCL library" in backend.why_none()
    with pytest.raises(BackendNotInitialised, match="opencl:0 is not present") as error:
        backend.open("opencl", BackendOptions())
    assert "apt install ocl-icd-libopencl1" in error.value.hint
    assert "intel-opencl-icd" in error.value.hint and "pocl-opencl-icd" in error.value.hint


def test_no_driver(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "listed", lambda *a: [])
    assert "no driver with a device" in OpenClBackend().why_none()


@pytest.mark.parametrize(("what", "answer", "why"), [
    (driver.DEVICE_AVAILABLE, 0, "isn't available"),
    (driver.DEVICE_COMPILER_AVAILABLE, 0, "no compiler"),
    (driver.DEVICE_ENDIAN_LITTLE, 0, "highest byte first"),
    (driver.DEVICE_MAX_WORK_GROUP_SIZE, 64, "at most 64 threads"),
    (driver.DEVICE_LOCAL_MEM_SIZE, 1024, "share 1024 bytes")])
def test_a_device_that_lacks_something(fresh: None, monkeypatch: pytest.MonkeyPatch, what: int,
                                       answer: int, why: str) -> None:
    real = driver.number_of
    monkeypatch.setattr(platforms, "number_of",
                        lambda device, asked: answer if asked == what else real(device, asked))
    backend = OpenClBackend()
    assert not backend.devices()
    assert "can't be used: " in backend.why_none() and why in backend.why_none()


def test_an_old_language(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    real = driver.text_of

    answers = {driver.DEVICE_OPENCL_C_VERSION: "OpenCL C 1.1 ",
               driver.DEVICE_VERSION: "OpenCL 1.1 "}

    def old(function: str, of: Any, what: int) -> str:
        return answers.get(what) or real(function, of, what)
    monkeypatch.setattr(platforms, "text_of", old)
    assert "takes OpenCL C 1.1, and 1.2 is needed" in OpenClBackend().why_none()


def test_a_kernel_that_does_not_compile(gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                        ) -> None:
    (tmp_path / "wrong.h").write_text("#bind out float y\n\nKERNEL(wrong) { y[0] = what; }\n")
    monkeypatch.setattr(c_texts, "_shelf", lambda: c_texts.Shelf(tmp_path, ".h", "c"))
    with pytest.raises(UnladenError, match="wrong doesn't compile") as error:
        gpu.compiled("wrong", "", {"WG": 64})
    assert "wrong.h:3" in str(error.value) and "what" in str(error.value)


def test_a_buffer_that_the_driver_refuses(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "max_buffer", 1 << 60)
    monkeypatch.setattr(gpu, "free_bytes", lambda: 1 << 60)
    with pytest.raises((OutOfMemory, UnladenError), match="opencl:8"):
        Memory(gpu, 1 << 50)
    with pytest.raises(OutOfMemory) as error:
        Memory(gpu, 1 << 61)
    assert error.value.device == "opencl:8" and error.value.requested == 1 << 61


def test_errors_have_types() -> None:
    assert isinstance(driver.error("opencl:0", "f", -4, requested=5), OutOfMemory)
    for name in ("clCreateBuffer", "clEnqueueFillBuffer"):
        assert isinstance(driver.error("opencl:0", name, -5, requested=5), OutOfMemory)
    for number in (-5, -14, -36, -9999):
        assert isinstance(driver.error("opencl:0", "f", number, requested=5), DeviceLost)
    plain = driver.error("opencl:0", "clSetKernelArg", -51)
    assert type(plain) is UnladenError and "invalid size of an argument (-51)" in str(plain)


def test_a_lost_device_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = OpenClBackend()
    backend.open("opencl:0", BackendOptions())
    first = backend.gpu("opencl:0")
    queue, first.queue = first.queue, ctypes.c_void_p()
    backend.open("opencl:0", BackendOptions())
    assert backend.gpu("opencl:0") is not first
    first.queue = queue


@pytest.mark.parametrize("use", ["read", "write", "copy", "run"])
def test_a_lost_device_stays_lost(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator,
                                  use: str) -> None:
    """NVIDIA's driver tells a killed kernel once, by the error of missing resources, and then takes
    a flush."""
    backend, m = OpenClBackend(), Maker(rng, 8)  # a prompt: it isn't recorded
    bench = running.Bench(backend, m.case("add", m.input("T", 4), m.input("T", 4)))
    bench.run()
    a, b = (backend.alloc(bench.device, 64, "arena") for _ in range(2))
    function, work = {
        "read": ("clEnqueueReadBuffer", lambda: backend.read(a, 64)),
        "write": ("clEnqueueWriteBuffer", lambda: backend.write(a, np.zeros(64, np.uint8))),
        "copy": ("clEnqueueCopyBuffer", lambda: backend.copy(a, 0, b, 0, 64)),
        "run": ("clEnqueueNDRangeKernel", bench.run)}[use]
    with monkeypatch.context() as patch:
        patch.setattr(driver.library(), function, lambda *arguments: -5)
        with pytest.raises(DeviceLost, match="-5"):
            work()
    first = backend.gpu("opencl:0")
    first.flush()
    backend.open("opencl:0", BackendOptions())
    assert backend.gpu("opencl:0") is not first
    assert not backend.gpu("opencl:0").is_lost


def test_what_was_closed_says_so() -> None:
    backend = OpenClBackend()
    device = backend.open("opencl:0", BackendOptions())
    buffer = backend.alloc(device, 64, "arena")
    backend.close(device)
    with pytest.raises(BackendNotInitialised, match="closed"):
        backend.read(buffer, 64)
    with pytest.raises(BackendNotInitialised, match="closed"):
        backend.alloc(device, 64, "arena")


def test_memory_is_counted_and_given_back(gpu: Gpu) -> None:
    memory = Memory(gpu, 1000)
    assert gpu.used_bytes == 1008
    gpu.write(memory, 0, np.arange(100, dtype=np.uint8))
    gpu.wait()
    del memory
    assert gpu.used_bytes == 0


def test_copies_within_a_buffer_that_overlap(gpu: Gpu) -> None:
    memory = Memory(gpu, 64)
    gpu.write(memory, 0, np.arange(64, dtype=np.uint8))
    gpu.copy(memory, 8, memory, 0, 32)
    assert gpu.read(memory, 0, 48)().tolist() == [*range(8), *range(32), *range(40, 48)]


def test_features_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(features.VARIABLE, "tensor_cores")
    with pytest.raises(InvalidArgument, match="tensor_cores is no ability"):
        features.chosen(frozenset(), "a card")
    monkeypatch.setenv(features.VARIABLE, "none")
    assert features.chosen(frozenset({"subgroups"}), "a card") == frozenset()
    monkeypatch.delenv(features.VARIABLE)
    assert features.chosen(frozenset({"subgroups"}), "a card") == {"subgroups"}
    assert features.available(["cl_khr_integer_dot_product", "cl_khr_fp16"], (3, 0)) == {"int_dot"}


def test_a_forked_child_is_told() -> None:
    backend = backend_of("opencl")
    assert backend.devices()

    def child() -> None:
        with pytest.raises(BackendNotInitialised, match="forked"):
            OpenClBackend().open("opencl:0", BackendOptions())
    in_child(child)
