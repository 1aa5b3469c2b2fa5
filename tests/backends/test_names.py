"""Names of devices, as people write them."""

from __future__ import annotations

import pytest

from unladen.assembly.setup import device_names
from unladen.backends import backend_of
from unladen.backends.base import full_name
from unladen.errors import BackendNotInitialised, InvalidArgument


@pytest.mark.parametrize(("name", "full"), [
    ("cpu", "cpu:0"), ("CPU", "cpu:0"), (" cpu:1 ", "cpu:1"), ("cpu1", "cpu:1"), ("wgpu", "wgpu:0"),
    ("WGPU1", "wgpu:1"), ("CUDA0", "cuda:0"), ("cuda", "cuda:0"), ("cuda:3", "cuda:3"),
    ("CUDA12", "cuda:12"), ("ROCm0", "hip:0"), ("rocm1", "hip:1"), ("HIP2", "hip:2"),
    ("Vulkan0", "wgpu:0"), ("vulkan:1", "wgpu:1"), ("Metal", "metal:0"), ("MTL0", "metal:0"),
    ("mps", "metal:0"), ("gpu", "wgpu:0"), ("GPUOpenCL", "opencl:0"), ("SYCL0", "sycl:0"),
    ("null:3", "null:3"), ("null", "null:0"), ("reference", "reference:0"),
    ("Mine2", "Mine2:0"), ("b2:1", "b2:1"), ("", ":0"), ("cpu:x", "cpu:x"), ("0", "0:0")])
def test_full_names(name: str, full: str) -> None:
    assert full_name(name) == full


def test_in_lists_and_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_names(["Vulkan1", "CPU"]) == ("wgpu:1", "cpu:0")
    monkeypatch.setenv("UNLADEN_DEVICES", "Metal,CPU")
    assert device_names(None) == ("metal:0", "cpu:0")
    with pytest.raises(InvalidArgument, match="twice"):
        device_names(["CPU", "cpu:0"])


@pytest.mark.parametrize("name", ["musa:0", "abacus:1"])
def test_what_there_is_instead(name: str) -> None:
    with pytest.raises(BackendNotInitialised, match=name.partition(":")[0]) as caught:
        backend_of(name)
    assert "devices here: " in caught.value.hint and "cpu:0" in caught.value.hint
    assert "backends: cpu, " in caught.value.hint
    assert all(name in caught.value.hint.partition("through wgpu")[2]
               for name in ("cuda", "hip", "metal", "opencl", "sycl"))


@pytest.mark.parametrize(("name", "meant"), [
    ("oepncl", "did you mean opencl?"), ("wpgu:1", "did you mean wgpu?"),
    ("auto", "leave the devices out"), ("nvidia", "cuda:0"), ("AMD", "hip:0"),
    ("intel:0", "opencl:0"), ("apple", "metal:0")])
def test_what_was_meant(name: str, meant: str) -> None:
    with pytest.raises(BackendNotInitialised) as caught:
        backend_of(full_name(name))
    assert caught.value.message.startswith("no backend is called ")
    assert meant in caught.value.hint.partition("devices here")[0]
    assert ":0" not in caught.value.message, "what the user didn't write"
