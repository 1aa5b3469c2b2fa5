"""Decode steps that are recorded, and programs that are kept on disk."""

from __future__ import annotations

import ctypes
import logging
from ctypes import c_size_t
from pathlib import Path

import numpy as np
import pytest

from cases import linear, running
from cases.base import Maker
from unladen.backends import backend_of
from unladen.backends._gpu import binaries
from unladen.backends.base import BackendOptions
from unladen.backends.opencl import features, recording
from unladen.backends.opencl.building import Builder
from unladen.backends.opencl.device import ENTRY, Gpu, Memory
from unladen.backends.opencl.program import N_STAGED, OpenClProgram, StepWords
from unladen.backends.opencl.recording import Recorder, Recording
from unladen.errors import UnladenError

Rng = np.random.Generator


@pytest.fixture
def gpu() -> Gpu:
    return Gpu("opencl:8", 8, set())


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of binaries."""
    monkeypatch.setenv(binaries.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_decode_step_is_one_call(rng: Rng) -> None:
    """Also after others of the same and of another size; a prompt is not recorded."""
    backend = backend_of("opencl")
    m = next(m for m in iter(lambda: Maker(rng, 2, n_seqs=2), None) if m.batch.q_start.size > 2)
    run = running.Bench(backend, m.case("add", m.input("T", 4), m.input("T", 4)), BackendOptions())
    if run.device.features and not dict(run.device.features)[recording.FEATURE]:
        pytest.skip("the driver has no command buffers")
    assert isinstance(run.program, OpenClProgram)
    batch = run.case.batch
    for n_tokens, n_seqs in ((1, 1), (2, 2), (1, 1), (2, 1)):
        batch.n_tokens, batch.n_seqs = n_tokens, n_seqs
        batch.n_outputs = min(n_tokens, run.case.limits.bind("S"))
        batch.q_start[:n_seqs + 1] = np.linspace(0, n_tokens, n_seqs + 1)
        (y,) = run.run()
        expected = sum(run.case.inputs.values())
        np.testing.assert_array_equal(y[:n_tokens], expected[:n_tokens])
    kinds = {key.is_decode: {type(group) for alike in sizes.values() for group in alike}
             for key, sizes in run.program.sized.items()}
    assert kinds[True] == {Recording} and Recording not in kinds[False]


def test_a_trial_that_fails_is_told_and_steps_are_started_one_by_one(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def forgets(self: Recorder, recording: Recording) -> None:
        return

    monkeypatch.setattr(Recorder, "start", forgets)
    with caplog.at_level(logging.WARNING, "unladen"):
        gpu = Gpu("opencl:8", 8, set())
    if recording.FEATURE not in gpu.features:
        pytest.skip("the driver has no command buffers")
    assert gpu.recorder is None
    assert "3 kernels started 2 times gives 7 instead of 5467" in caplog.text
    assert features.VARIABLE in caplog.text


def test_a_device_without_the_feature_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(features.VARIABLE, "none")
    assert Gpu("opencl:8", 8, set()).recorder is None


def test_words_stay_until_they_are_uploaded(gpu: Gpu) -> None:
    """The step's words may change at once, however many steps the device is behind."""
    words = StepWords(gpu, 64)
    found = []
    for n in range(3 * N_STAGED):
        given = np.full(16, n, np.int32)
        words.write(given)
        given[:] = -1
        found.append(gpu.read(words.memory, 0, 64))
    for n, wait in enumerate(found):
        assert (wait().view(np.int32) == n).all()


def new_builder(gpu: Gpu) -> Builder:
    """One that has built nothing yet."""
    return Builder(gpu.found, gpu.context, gpu.caller)


def test_a_program_comes_from_disk(gpu: Gpu, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "__kernel void kernel_main(__global uint *a) { a[0] = 41u + 1u; }"
    new_builder(gpu).build(text, "", "first")
    (file,) = kept.iterdir()

    def never(*args: object) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(Builder, "_from_text", never)
        again = new_builder(gpu).build(text, "", "again")
        with pytest.raises(AssertionError, match="compiled again"):
            new_builder(gpu).build(text, "-DOTHER", "other")
    assert _result(gpu, again) == 42
    # A whole file whose binary the driver refuses, and one that was cut: both are written anew.
    whole = file.read_bytes()
    for broken in (_with(binaries.Binaries(kept), gpu, text, b"no binary"), whole[:-5], b""):
        if broken is not None:
            file.write_bytes(broken)
        assert _result(gpu, new_builder(gpu).build(text, "", "mended")) == 42
        with monkeypatch.context() as patch:
            patch.setattr(Builder, "_from_text", never)
            new_builder(gpu).build(text, "", "again")


def test_the_kernels_of_a_product_come_from_disk(rng: Rng, kept: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    case = linear.plain(rng, 5, ["Q4_K"])
    new = type(backend_of("opencl"))
    expected = running.Bench(new(), case).run()
    assert list(kept.glob("*.kernel"))

    def never(*args: object) -> None:
        raise AssertionError("compiled again")
    monkeypatch.setattr(Builder, "_from_text", never)
    np.testing.assert_array_equal(running.Bench(new(), case).run(), expected)


def test_a_driver_that_gives_no_binary(gpu: Gpu, kept: Path, monkeypatch: pytest.MonkeyPatch
                                       ) -> None:
    monkeypatch.setattr("unladen.backends.opencl.building.binary_of", lambda *a: b"")
    text = "__kernel void kernel_main(__global uint *a) { a[0] = 43u; }"
    for _ in range(2):
        assert _result(gpu, new_builder(gpu).build(text, "", "text")) == 43


def test_no_binary_is_asked_for_where_none_is_kept(gpu: Gpu, monkeypatch: pytest.MonkeyPatch
                                                   ) -> None:
    """PoCL compiles a kernel once more when it is asked."""
    def never(*args: object) -> None:
        raise AssertionError("asked for a binary")
    monkeypatch.setattr("unladen.backends.opencl.building.binary_of", never)
    text = "__kernel void kernel_main(__global uint *a) { a[0] = 44u; }"
    monkeypatch.setenv(binaries.VARIABLE, "")
    assert _result(gpu, new_builder(gpu).build(text, "", "text")) == 44


def test_an_error_names_the_text(gpu: Gpu, kept: Path) -> None:
    with pytest.raises(UnladenError, match="this doesn't compile"):
        new_builder(gpu).build("__kernel void f() { what; }", "", "this")
    assert not list(kept.glob("*.kernel"))


def _with(kept: binaries.Binaries, gpu: Gpu, text: str, binary: bytes) -> None:
    """Keep ``binary`` in the place of the compiled ``text``."""
    of = ("opencl", text, "", gpu.found.name, gpu.found.platform, gpu.found.driver_version)
    kept.forget(of)
    kept.get(of, lambda: binary)


def _result(gpu: Gpu, program: ctypes.c_void_p) -> int:
    memory = Memory(gpu, 16)
    kernel = gpu.caller.make("clCreateKernel", program, ENTRY)
    gpu.caller.call("clSetKernelArg", kernel, 0, 8, ctypes.byref(memory.handle))
    one = (c_size_t * 3)(1, 1, 1)
    gpu.caller.call("clEnqueueNDRangeKernel", gpu.queue, kernel, 3, None, one, one, 0, None,
                None)
    found = gpu.read(memory, 0, 4)()
    gpu.caller.call("clReleaseKernel", kernel)
    return int(found.view(np.uint32)[0])
