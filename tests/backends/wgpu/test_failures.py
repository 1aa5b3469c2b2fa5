"""Whatever goes wrong on a device is an error of ours, and the process lives on."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.test_fork import in_child
from unladen import Model
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.backends.wgpu import adapters, source
from unladen.backends.wgpu.backend import WgpuBackend
from unladen.backends.wgpu.gpu import Gpu
from unladen.errors import (
    BackendNotInitialised,
    DeviceLost,
    OutOfMemory,
    UnladenError,
    UnsupportedOp,
)


@pytest.fixture
def gpu() -> Gpu:
    return Gpu("wgpu:8", 8, set())


def test_a_kernel_that_does_not_compile(gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                        ) -> None:
    (tmp_path / "wrong.wgsl").write_text("@compute @workgroup_size(1)\nfn main() { let x = 1 + 1i "
                                         "* 2.0; }\n")
    monkeypatch.setattr(source, "FOLDER", tmp_path)
    with pytest.raises(UnsupportedOp, match="wrong") as error:
        gpu.pipeline("wrong", "", {})
    assert "1i" in str(error.value)


def test_a_buffer_that_the_driver_refuses(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "max_buffer", 1 << 60)
    monkeypatch.setattr(gpu, "free_bytes", lambda: 1 << 60)
    with pytest.raises((OutOfMemory, UnladenError), match="wgpu:8"):
        gpu.buffer(1 << 50)


def test_a_lost_device_is_named_and_a_new_one_works(make_model: Callable[..., Path]) -> None:
    path = make_model("llama")
    backend = backend_of("wgpu")
    assert isinstance(backend, WgpuBackend)
    with Model(path, devices=["wgpu:7"]) as model:
        before = model.generate([3, 4, 5], temperature=0.0, max_tokens=4).tokens
        backend.gpu("wgpu:7").wgpu.destroy()
        with pytest.raises(DeviceLost, match="wgpu:7"):
            model.generate([3, 4, 5], temperature=0.0, max_tokens=4)
    with Model(path, devices=["wgpu:7"]) as model:
        assert model.generate([3, 4, 5], temperature=0.0, max_tokens=4).tokens == before


def test_a_long_prompt_can_be_cancelled(make_model: Callable[..., Path]) -> None:
    path = make_model("llama", n_layers=30)
    with Model(path, devices=["wgpu:0"], batch_size=64, context_size=128) as model:
        plan = model.engine.plan
        ((_, program),) = plan._programs
        submitted = []
        wait = program.gpu.wait_for

        def waiting(submission: int) -> None:
            submitted.append(1)
            if len(submitted) == 2:
                threading.Thread(target=plan.cancel).start()
                while not program.cancelled:
                    pass
            wait(submission)

        program.gpu.wait_for = waiting
        try:
            stream = model.stream(list(range(3, 63)), temperature=0.0, max_tokens=2)
            next(iter(stream), None)
        finally:
            del program.gpu.wait_for
        # The step was given up after two of its submissions, and then done again.
        assert len(submitted) > 2
        tokens = model.generate(list(range(3, 63)), temperature=0.0, max_tokens=2).tokens
    with Model(path, devices=["cpu"], batch_size=64, context_size=128, precise=True) as model:
        assert model.generate(list(range(3, 63)), temperature=0.0, max_tokens=2).tokens == tokens


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes a module impossible to import, or all adapters disappear."""
    def hide(what: str) -> None:
        adapters.load.cache_clear()
        adapters.adapters.cache_clear()
        if what == "wgpu":
            monkeypatch.setitem(sys.modules, "wgpu", None)
        else:
            monkeypatch.setattr(adapters, "BACKENDS", ())

    yield hide
    monkeypatch.undo()
    adapters.load.cache_clear()
    adapters.adapters.cache_clear()


@pytest.mark.parametrize(("what", "advice"), [("wgpu", "pip install"), ("adapters", "driver")])
def test_nothing_to_run_on(without: Callable[[str], None], what: str, advice: str) -> None:
    without(what)
    backend = WgpuBackend()
    assert list(backend.devices()) == []
    assert advice in backend.why_none()
    with pytest.raises(BackendNotInitialised) as error:
        backend.open("wgpu:0", BackendOptions())
    assert advice in error.value.hint


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_told(make_model: Callable[..., Path]) -> None:
    """Drivers would wait in it for threads that only the parent has; the CPU goes on computing."""
    path = make_model("llama")
    with Model(path, devices=["wgpu:0"]) as model:
        model.generate([5], max_tokens=1)

        def child() -> None:
            with pytest.raises(DeviceLost, match="forked"):
                model.generate([5], max_tokens=1)
            with pytest.raises(BackendNotInitialised, match="forked"):
                Model(path, devices=["wgpu:0"])
            with Model(path, devices=["cpu:0"]) as other:
                other.generate([5], max_tokens=1)
        in_child(child)
        model.generate([5], max_tokens=1)
