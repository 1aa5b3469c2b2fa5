"""The backend where dpctl is installed: a model, order, memory, errors. Every op runs on it in
``tests/backends/test_ops.py``."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backends.sycl.fake_dpctl import device
from engine.test_fork import in_child
from unladen import Model
from unladen.backends import backend_of
from unladen.backends._gpu import c_texts
from unladen.backends.base import BackendOptions
from unladen.backends.sycl import driver
from unladen.backends.sycl.backend import SyclBackend
from unladen.errors import BackendNotInitialised, InvalidArgument, OutOfMemory, UnladenError


@pytest.fixture
def backend() -> SyclBackend:
    """The backend, or skip where there is no device."""
    backend = SyclBackend()
    if not backend.devices():
        pytest.skip(f"sycl: {backend.why_none()}")
    return backend


@pytest.fixture
def fresh() -> Iterator[None]:
    """Devices are looked for again, and again afterwards."""
    driver.found.cache_clear()
    driver.dpctl.cache_clear()
    yield
    driver.found.cache_clear()
    driver.dpctl.cache_clear()


def test_without_dpctl(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: None if name == "dpctl" else real(name))
    backend = SyclBackend()
    assert not backend.devices() and "pip install 'unladen[sycl]'" in backend.why_none()
    with pytest.raises(BackendNotInitialised, match="sycl:0 is not present") as told:
        backend.open("sycl", BackendOptions())
    assert "dpctl isn't installed" in told.value.hint


def test_a_broken_dpctl(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dpctl").mkdir()
    (tmp_path / "dpctl/__init__.py").write_text("raise ImportError('libsycl.so.9')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "dpctl", raising=False)
    assert "can't be loaded" in SyclBackend().why_none()


@pytest.mark.parametrize(("different", "why"), [
    ({"backend": SimpleNamespace(name="level_zero")}, "only for devices of OpenCL"),
    ({"has_aspect_usm_device_allocations": False}, "no memory that SYCL allocates"),
    ({"max_work_group_size": 64}, "at most 64 threads"),
    ({"local_mem_size": 1024}, "share 1024 bytes")])
def test_a_device_that_lacks_something(fresh: None, monkeypatch: pytest.MonkeyPatch,
                                       different: dict[str, Any], why: str) -> None:
    there = SimpleNamespace(get_devices=lambda: [device(**different)])
    monkeypatch.setattr(driver, "dpctl", lambda: there)
    assert "card (opencl:gpu:0) can't be used: " in driver.why_none() and why in driver.why_none()
    driver.found.cache_clear()
    there.get_devices = list
    assert "dpctl finds no device" in driver.why_none()
    assert f"{sys.prefix}/lib/libintelocl.so" in driver.why_none()
    assert "OCL_ICD_VENDORS" in driver.why_none() and "LD_LIBRARY_PATH" in driver.why_none()
    monkeypatch.undo()


def test_features_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    there = frozenset({"subgroups"})
    assert driver.chosen(there, "a card") == there
    monkeypatch.setenv(driver.VARIABLE, "int_dot")
    with pytest.raises(InvalidArgument, match="int_dot, which a card lacks"):
        driver.chosen(there, "a card")
    monkeypatch.setenv(driver.VARIABLE, "none")
    assert not driver.chosen(there, "a card")


def test_a_model_token_for_token(backend: SyclBackend, shared: Path) -> None:
    name = "stories260K-f32"
    case = json.loads((shared / f"models/refs/{name}.json").read_text())["cases"][0]
    with Model(shared / f"models/{name}.gguf", devices=["sycl:0"], kv_type="f32") as model:
        assert {line.split()[2] for line in model.placement().splitlines()} == {"sycl:0"}
        result = model.generate(case["prompt"], temperature=0.0, max_tokens=24)
    assert result.tokens == case["tokens"][:24]


def test_writes_and_reads_keep_their_order(backend: SyclBackend, rng: np.random.Generator) -> None:
    there = backend.open("sycl:0", BackendOptions())
    a, b = (backend.alloc(there, 4096, "arena") for _ in range(2))
    assert not backend.read(a, 4096).any()
    first, second = (rng.integers(0, 256, 4096).astype(np.uint8) for _ in range(2))
    backend.write(a, first)
    assert backend.copy(b, 0, a, 0, 4096)
    backend.write(a, second)
    later = backend.fetch(a, 4096)
    backend.write(a, first, 0)
    assert np.array_equal(later(), second)
    assert np.array_equal(backend.read(b, 4096), first)
    assert backend.copy(a, 8, a, 0, 64)
    assert np.array_equal(backend.read(a, 64, 8), first[:64])
    backend.sync(there)
    gpu = backend.gpu("sycl:0")
    assert not gpu.is_lost and gpu.used_bytes >= 8192
    with pytest.raises(OutOfMemory):
        backend.alloc(there, 1 << 60, "arena")
    backend.close(there)
    with pytest.raises(BackendNotInitialised, match="closed"):
        backend.read(a, 64)


def test_a_kernel_that_does_not_compile(backend: SyclBackend, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    backend.open("sycl:8", BackendOptions())
    (tmp_path / "wrong.h").write_text("#bind out float y\n\nKERNEL(wrong) { y[0] = what; }\n")
    monkeypatch.setattr(c_texts, "_shelf", lambda: c_texts.Shelf(tmp_path, ".h", "c"))
    with pytest.raises(UnladenError, match="kernel wrong doesn't compile") as told:
        backend.gpu("sycl:8").compiled("wrong", "", {"WG": 64})
    assert "opencl:0" in told.value.hint


def test_a_forked_child_is_told(backend: SyclBackend) -> None:
    def child() -> None:
        with pytest.raises(BackendNotInitialised, match="forked"):
            SyclBackend().open("sycl:0", BackendOptions())
    in_child(child)


def test_it_is_used_only_where_it_is_named() -> None:
    assert not any(d.is_default for d in backend_of("sycl").devices())
