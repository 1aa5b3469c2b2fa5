"""What drivers say, with drivers made of Python; and that nothing raises without any."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from unladen.backends._gpu import drivers


class Driver:
    """A shared library: functions by name, each a status or a callable."""

    def __init__(self, **functions: Any) -> None:
        for name, function in functions.items():
            setattr(self, name, function if callable(function) else lambda *_, f=function: f)


def sets(value: int, status: int = 0) -> Any:
    """A function that stores ``value`` where its one reference points."""
    def call(*arguments: Any) -> int:
        for argument in arguments:
            if type(argument).__name__ == "CArgObject":
                argument._obj.value = value
        return status
    return call


def cuda(n_devices: int, **changed: Any) -> Driver:
    def place(buffer: Any, size: int, handle: Any) -> int:
        assert size == len(buffer)
        buffer.value = b"0000:%02x:00.0" % handle.value
        return 0
    functions = {"cuInit": 0, "cuDeviceGetCount": sets(n_devices), "cuDeviceGetPCIBusId": place,
                 "cuDeviceGet": lambda ref, i: sets(16 + i)(ref)}
    return Driver(**functions | changed)


def nvml(**changed: Any) -> Driver:
    def memory(found: Any, ref: Any) -> int:
        ref._obj.total, ref._obj.free, ref._obj.used = 1000 * found.value, 1, 10 * found.value
        return 0

    def by_place(place: Any, ref: Any) -> int:
        return sets(int(place.value[5:7], 16))(ref)
    functions = {"nvmlInit_v2": 0, "nvmlShutdown": 0, "nvmlDeviceGetMemoryInfo": memory,
                 "nvmlDeviceGetHandleByPciBusId_v2": by_place}
    return Driver(**functions | changed)


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> dict[str, Driver]:
    """Libraries that can be loaded, by file name."""
    libraries: dict[str, Driver] = {}

    def load(name: str) -> Driver:
        if name not in libraries:
            raise OSError(f"{name}: cannot open shared object file")
        return libraries[name]
    monkeypatch.setattr(ctypes, "CDLL", load)
    return libraries


def everything() -> list[Any]:
    return [drivers.cuda_available(), drivers.metal_available(), drivers.rocm_available(),
            drivers.vulkan_available(), drivers.cuda_device_count(), drivers.cuda_memory_info()]


NOTHING = [False, False, False, False, 0, (0, 0)]


def test_nothing_is_there(present: dict[str, Driver]) -> None:
    assert everything() == NOTHING


def test_this_machine() -> None:
    """Whatever it has, the answers fit together."""
    n = drivers.cuda_device_count()
    assert drivers.cuda_available() == (n > 0)
    for i in range(n):
        used, total = drivers.cuda_memory_info(i)
        assert 0 <= used <= total
    assert drivers.cuda_memory_info(n) == drivers.cuda_memory_info(-1) == (0, 0)
    assert drivers.metal_available() <= (sys.platform == "darwin")
    assert isinstance(drivers.vulkan_available(), bool)
    assert isinstance(drivers.rocm_available(), bool)


def test_cuda(present: dict[str, Driver]) -> None:
    present["libcuda.so.1"] = cuda(2)
    assert drivers.cuda_available() and drivers.cuda_device_count() == 2
    assert drivers.cuda_memory_info(1) == (0, 0), "no NVML"
    present["libnvidia-ml.so.1"] = nvml()
    assert drivers.cuda_memory_info(0) == (160, 16000)
    assert drivers.cuda_memory_info(1) == (170, 17000)
    assert drivers.cuda_memory_info(2) == drivers.cuda_memory_info(-1) == (0, 0)
    present["nvcuda.dll"] = present.pop("libcuda.so.1")
    assert drivers.cuda_device_count() == 2


@pytest.mark.parametrize("driver", [
    cuda(0), cuda(1, cuInit=100), cuda(1, cuDeviceGetCount=3), Driver(), Driver(cuInit=0)])
def test_drivers_without_a_device(present: dict[str, Driver], driver: Driver) -> None:
    present["libcuda.so.1"], present["libnvidia-ml.so.1"] = driver, nvml()
    assert everything() == NOTHING


@pytest.mark.parametrize("changed", [
    {"nvmlInit_v2": 9}, {"nvmlDeviceGetHandleByPciBusId_v2": 6}, {"nvmlDeviceGetMemoryInfo": 1}])
def test_memory_that_cannot_be_told(present: dict[str, Driver], changed: dict[str, int]) -> None:
    present["libcuda.so.1"], present["libnvidia-ml.so.1"] = cuda(1), nvml(**changed)
    assert drivers.cuda_device_count() == 1 and drivers.cuda_memory_info(0) == (0, 0)


def test_rocm(present: dict[str, Driver]) -> None:
    for status, n, expected in ((0, 2, True), (0, 0, False), (100, 0, False)):
        present["libamdhip64.so.6"] = Driver(hipGetDeviceCount=sets(n, status))
        assert drivers.rocm_available() is expected


def test_vulkan(present: dict[str, Driver]) -> None:
    destroyed: list[int] = []

    def library(status: int, n: int) -> Driver:
        return Driver(vkCreateInstance=lambda info, _, out: status or sets(5)(out),
                      vkEnumeratePhysicalDevices=lambda instance, ref, _: sets(n)(ref),
                      vkDestroyInstance=lambda instance, _: destroyed.append(instance.value))
    for status, n, expected in ((0, 1, True), (0, 0, False), (-9, 1, False)):
        present["libvulkan.so.1"] = library(status, n)
        assert drivers.vulkan_available() is expected
    assert destroyed == [5, 5]


def test_metal(present: dict[str, Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list of devices is released."""
    counts, released = {7: 2, 8: 0}, []

    def library(array: int | None) -> Driver:
        return Driver(MTLCopyAllDevices=lambda: array)
    present[drivers.METAL[0]] = library(7)
    present[drivers.CORE_FOUNDATION[0]] = Driver(
        CFArrayGetCount=lambda array: counts[array.value],
        CFRelease=lambda array: released.append(array.value))
    assert not drivers.metal_available() or sys.platform == "darwin"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert drivers.metal_available() and released == [7]
    present[drivers.METAL[0]] = library(8)
    assert not drivers.metal_available() and released == [7, 8]
    present[drivers.METAL[0]] = library(None)
    assert not drivers.metal_available() and released == [7, 8]
    present[drivers.METAL[0]] = Driver()
    assert not drivers.metal_available()
    del present[drivers.CORE_FOUNDATION[0]]
    present[drivers.METAL[0]] = library(7)
    assert not drivers.metal_available()


def test_the_layout_of_vulkans_structure() -> None:
    """As the C compiler lays it out on every 64-bit system."""
    info = drivers._VkInstanceCreateInfo()
    assert ctypes.sizeof(info) == 64 and info.sType == 1
    assert [getattr(drivers._VkInstanceCreateInfo, f[0]).offset for f in info._fields_] == [
        0, 8, 16, 24, 32, 40, 48, 56]
    assert ctypes.sizeof(drivers._NvmlMemory) == 24
