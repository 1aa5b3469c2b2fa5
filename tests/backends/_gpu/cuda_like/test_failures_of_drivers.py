"""Whatever goes wrong on a card is an error of ours that says what to do."""

from __future__ import annotations

import ctypes
import ctypes.util
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from emulator import build
from engine.test_fork import in_child
from stub_driver.stub import Stub, backend, stub, vendor
from unladen.backends._gpu.cuda_like import driver as loaded
from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
from unladen.backends._gpu.cuda_like.driver import driver_of
from unladen.backends.base import BackendOptions, Buffer
from unladen.backends.cuda.driver import CUDA
from unladen.errors import (
    BackendNotInitialised,
    DeviceLost,
    InvalidArgument,
    OutOfMemory,
    UnladenError,
)

OPTIONS = BackendOptions()
LAUNCH_FAILED = 719


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", "")
    found = stub()
    found.reset(runs=False)
    yield found
    found.check()


@pytest.fixture(params=["cuda", "hip"])
def cards(request: pytest.FixtureRequest) -> CudaLikeBackend:
    return backend(str(request.param))


def buffer_of(cards: CudaLikeBackend, nbytes: int = 4096) -> Buffer:
    return cards.alloc(cards.open(cards.name, OPTIONS), nbytes, "arena")


def bench_of(cards: CudaLikeBackend, rng: np.random.Generator, number: int = 0) -> running.Bench:
    m = Maker(rng, 1, n_seqs=1)
    case = m.case("add", m.input("T", 16), m.input("T", 16))
    return running.Bench(cards, case, device=f"{cards.name}:{number}")


def test_memory_that_is_not_there(cards: CudaLikeBackend, driver: Stub) -> None:
    device = cards.open(cards.name, OPTIONS)
    free = cards.free_bytes(device)
    with pytest.raises(OutOfMemory) as error:
        cards.alloc(device, free + 1, "weights")
    assert (error.value.device, error.value.requested) == (device.name, free + 1)
    assert error.value.free == free and "context_size" in error.value.hint


def test_memory_that_another_process_took(cards: CudaLikeBackend, driver: Stub) -> None:
    """The driver refuses what it said was free."""
    device = cards.open(cards.name, OPTIONS)
    driver.fail("cuMemAlloc_v2", 2)
    with pytest.raises(OutOfMemory) as error:
        cards.alloc(device, 1 << 20, "weights")
    assert error.value.requested == 1 << 20
    driver.fail("cuMemHostAlloc", 2)
    with pytest.raises(OutOfMemory):
        cards.alloc(device, 4096, "staging")


def test_a_kernel_that_fails(cards: CudaLikeBackend, driver: Stub, rng: np.random.Generator
                             ) -> None:
    """It is noticed where the host waits, with the driver's name of the error."""
    bench = bench_of(cards, rng)
    driver.set("runs", 1)
    driver.fail("kernel", LAUNCH_FAILED)
    with pytest.raises(DeviceLost, match=r"(LAUNCH_FAILED|OfTheStub) \(719\)") as error:
        bench.run()
    assert error.value.hint.startswith("load the model again")
    with pytest.raises(DeviceLost):
        cards.alloc(bench.device, 64, "arena")


@pytest.mark.parametrize("function", ["cuGraphLaunch", "cuMemcpyHtoDAsync_v2", "cuEventRecord"])
def test_a_device_that_is_lost_is_opened_again(cards: CudaLikeBackend, function: str, driver: Stub,
                                               rng: np.random.Generator) -> None:
    bench = bench_of(cards, rng)
    first = cards.gpu(f"{cards.name}:0")
    driver.fail(function, LAUNCH_FAILED)
    with pytest.raises(DeviceLost, match=first.name):
        bench.run()
    assert first.is_lost
    cards.open(cards.name, OPTIONS)
    assert cards.gpu(first.name) is not first and not cards.gpu(first.name).is_lost
    data = np.arange(256, dtype=np.uint8)
    again = buffer_of(cards)
    cards.write(again, data)
    del bench, first  # what belonged to the lost context isn't freed in the new one
    np.testing.assert_array_equal(cards.read(again, 256), data)


def test_freeing_leaves_a_thread_with_its_card(cards: CudaLikeBackend, driver: Stub) -> None:
    """Garbage of another card is freed between any two calls."""
    driver.set("devices", 2)
    first, second = (cards.open(f"{cards.name}:{i}", OPTIONS) for i in range(2))
    garbage, context = cards.alloc(second, 1 << 16, "arena"), cards.gpu(first.name).context
    used = [driver.used_bytes(i) for i in range(2)]
    context.enter()
    del garbage
    address = ctypes.c_uint64()
    context.call("alloc", ctypes.byref(address), 4096)
    assert [driver.used_bytes(i) - n for i, n in enumerate(used)] == [4096, -(1 << 16)]
    context.call("free", address)


def test_devices_on_one_card_are_lost_together(cards: CudaLikeBackend, driver: Stub) -> None:
    cards.open(f"{cards.name}:1", OPTIONS)
    buffer = buffer_of(cards)
    driver.fail("cuMemcpyHtoDAsync_v2", LAUNCH_FAILED)
    with pytest.raises(DeviceLost):
        cards.write(buffer, np.zeros(16, np.uint8))
    assert cards.gpu(f"{cards.name}:1").is_lost


@pytest.mark.parametrize("number", [0, 1])
def test_what_was_on_a_lost_device_stays_lost(cards: CudaLikeBackend, number: int, driver: Stub,
                                              rng: np.random.Generator) -> None:
    """Another model's handles are those of the context that was destroyed, also on another logical
    device of the card. Once the device is open again, they aren't used."""
    first, second = (bench_of(cards, rng, i) for i in (0, number))
    buffer, mark = second.arena, cards.mark(second.device)
    second.run()
    driver.fail("cuGraphLaunch", LAUNCH_FAILED)
    with pytest.raises(DeviceLost, match=r"\(719\)"):
        first.run()
    again = buffer_of(cards)
    data = np.zeros(64, np.uint8)
    for use in (lambda: cards.run(second.program), lambda: cards.write(buffer, data),
                lambda: cards.read(buffer, 64), lambda: cards.copy(again, 0, buffer, 0, 64),
                lambda: cards.copy(buffer, 0, again, 0, 64),
                lambda: cards.write_ahead(buffer, data, after=mark)):
        with pytest.raises(DeviceLost, match=rf"{cards.name}.* was lost: .*\(719\)"):
            use()
    cards.write(again, data)
    assert not cards.read(again, 64).any()


def test_a_card_that_stays_lost(cards: CudaLikeBackend, driver: Stub) -> None:
    """Only a new process can use it, as CUDA says of most of these errors."""
    buffer = buffer_of(cards)
    driver.set("broken", 1)
    driver.lose(0)
    with pytest.raises(DeviceLost) as error:
        cards.write(buffer, np.zeros(16, np.uint8))
    assert "load the model again" in error.value.hint
    for _ in range(2):
        with pytest.raises(DeviceLost, match="719") as error:
            cards.open(cards.name, OPTIONS)
        assert error.value.hint.startswith("restart the process")
    driver.set("broken", 0)
    driver.fail("cuDevicePrimaryCtxReset_v2", 1)
    with pytest.raises(DeviceLost, match=r"PrimaryCtxReset\w* failed: \w+ \(1\)") as error:
        cards.open(cards.name, OPTIONS)
    assert error.value.hint.startswith("restart the process")
    cards.write(buffer_of(cards), np.zeros(16, np.uint8))


def test_a_lost_device_that_is_closed(cards: CudaLikeBackend, driver: Stub) -> None:
    """The card is reset before it is opened again."""
    buffer = buffer_of(cards)
    driver.lose(0)
    with pytest.raises(DeviceLost):
        cards.write(buffer, np.zeros(16, np.uint8))
    cards.close(buffer.device)
    cards.write(buffer_of(cards), np.zeros(16, np.uint8))
    assert driver.count("cuDevicePrimaryCtxReset_v2") == 1


def test_a_card_that_another_process_has(cards: CudaLikeBackend, driver: Stub) -> None:
    """Its compute mode lets one process use it. Nothing is lost."""
    driver.fail("cuDevicePrimaryCtxRetain", 46)
    with pytest.raises(BackendNotInitialised, match=r"PrimaryCtxRetain failed: \w+ \(46\)"
                       ) as error:
        cards.open(cards.name, OPTIONS)
    assert "another process has the card" in error.value.hint
    buffer_of(cards)
    assert not driver.count("cuDevicePrimaryCtxReset_v2")


def test_freeing_leaves_a_thread_another_library_s_card(cards: CudaLikeBackend, driver: Stub
                                                        ) -> None:
    """A library beside this package has made its context the thread's."""
    driver.set("devices", 2)
    cards.open(f"{cards.name}:1", OPTIONS)
    buffer = buffer_of(cards)
    driver.library.cuCtxSetCurrent(ctypes.c_void_p(2))
    del buffer
    assert driver.count("cuMemFree_v2") == 1 and driver.current() == 1


def test_another_error_names_the_function(cards: CudaLikeBackend, driver: Stub) -> None:
    buffer = buffer_of(cards)
    driver.fail("cuMemcpyHtoDAsync_v2", 1)
    match = r"(cu|hip)MemcpyHtoDAsync\w* failed: \w+ \(1\)"
    with pytest.raises(UnladenError, match=match) as error:
        cards.write(buffer, np.zeros(16, np.uint8))
    assert type(error.value) is UnladenError and not cards.gpu(f"{cards.name}:0").is_lost


def test_what_was_closed_says_so(cards: CudaLikeBackend) -> None:
    buffer = buffer_of(cards)
    cards.close(buffer.device)
    with pytest.raises(BackendNotInitialised, match="closed"):
        cards.read(buffer, 64)
    with pytest.raises(BackendNotInitialised, match="closed"):
        cards.alloc(buffer.device, 64, "arena")


def test_a_kernel_that_does_not_compile(driver: Stub, rng: np.random.Generator, tmp_path: Path
                                        ) -> None:
    """The message has the compiler's words."""
    driver.reset(runs=True)
    port = tmp_path / "wrong.h"
    port.write_text(f"{build.PORT.read_text()}\nint wrong = no_such_name;\n")
    for header in build.HERE.glob("*.h"):
        (tmp_path / header.name).write_text(header.read_text())
    with pytest.raises(UnladenError, match="kernel add doesn't compile for sm_90a") as error:
        bench_of(backend("cuda", port=port), rng)
    assert "no_such_name" in str(error.value)


def test_a_forked_child_is_told(cards: CudaLikeBackend) -> None:
    buffer = buffer_of(cards)

    def child() -> None:
        with pytest.raises(BackendNotInitialised, match="forked"):
            cards.open(cards.name, OPTIONS)
    in_child(child)
    del buffer


@pytest.mark.parametrize(("settings", "why"), [
    ({"devices": 0}, "shows no device"), ({"init": 100}, "shows no device"),
    ({"init": 34}, "shows no device"),
    ({"init": 3}, r"doesn't start: \w+ \(3\)")])
def test_a_driver_without_a_card(settings: dict[str, int], why: str, driver: Stub,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "lacks_cards", lambda maker: False)
    for name, value in settings.items():
        driver.set(name, value)
    cards = backend("cuda")
    assert not cards.devices()
    with pytest.raises(BackendNotInitialised, match="cuda:0 is not present") as error:
        cards.open("cuda", OPTIONS)
    assert re.search(why, error.value.hint) and "nvidia-smi" in error.value.hint


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = backend("cuda", libraries=("libNoCuda.so.9",))
    assert not cards.devices() and "was not found (libNoCuda.so.9)" in cards.why_none()
    monkeypatch.setattr(loaded, "lacks_cards", lambda maker: False)
    assert "www.nvidia.com/drivers" in cards.why_none()


def test_no_card_that_a_driver_could_help(driver: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that surely has no card of the maker's needs no driver of the maker's."""
    monkeypatch.setattr(loaded, "lacks_cards", {"NVIDIA": True, "AMD": True}.__getitem__)
    assert backend("cuda", libraries=("libNoCuda.so.9",)).why_none() == (
        "NVIDIA's driver was not found (libNoCuda.so.9), and no NVIDIA card is in this machine")
    driver.set("devices", 0)
    assert backend("hip").why_none() == (
        "AMD's HIP runtime is here, but it shows no device to this process, and no AMD card is in "
        "this machine")


def test_no_compiler() -> None:
    cards = backend("cuda", compilers=("libNoNvrtc.so.9",))
    assert not cards.devices()
    assert cards.why_none() == ("Stub 0 can't be used: it needs NVRTC, NVIDIA's run-time "
                                "compiler: pip install 'unladen[cuda]', which brings "
                                "nvidia-cuda-nvrtc-cu12")


def test_libraries_that_are_too_old(driver: Stub) -> None:
    """They are here, but lack a function. Another library has none of them."""
    symbols = {**CUDA.symbols, "instantiate": "cuGraphInstantiateOfNextYear"}
    assert backend("cuda", symbols=symbols).why_none() == (
        "NVIDIA's driver is here, but too old: it lacks cuGraphInstantiateOfNextYear: update it")
    symbols = {**CUDA.compiler_symbols, "code": "nvrtcGetCodeOfNextYear"}
    why = backend("cuda", compiler_symbols=symbols).why_none()
    assert "its compiler is here, but too old: it lacks nvrtcGetCodeOfNextYear" in why
    libc = ctypes.util.find_library("c") or "none"
    assert "was not found" in backend("cuda", libraries=(libc,)).why_none()
    assert "pip install 'unladen[cuda]'" in backend("cuda", compilers=(libc,)).why_none()


@pytest.mark.parametrize(("version", "nvrtc", "fits"), [
    (13000, 129, True), (12000, 129, True), (11080, 129, False), (12090, 130, False),
    (13000, 130, True), (12040, 118, True)])
def test_a_compiler_that_is_newer_than_the_driver(driver: Stub, version: int, nvrtc: int, fits: bool
                                                  ) -> None:
    """CUDA's drivers take code of compilers with their major version, or an older one."""
    driver.set("version", version)
    driver.set("nvrtc", nvrtc)
    cards = backend("cuda")
    assert bool(cards.devices()) == fits
    if not fits:
        mine, theirs = f"{version // 1000}.{version % 1000 // 10}", f"{nvrtc // 10}.{nvrtc % 10}"
        assert cards.why_none() == (
            f"Stub 0 can't be used: its driver is of CUDA {mine}, and takes no code of NVRTC "
            f"{theirs}: update the driver, or pip install nvidia-cuda-nvrtc-cu{mine[:2]} instead "
            "of this one")
    assert backend("hip").devices()  # a compiler of HIP comes with its driver


@pytest.mark.parametrize(("chip", "nvrtc", "known", "target", "lacking"), [
    (90, 129, 7, "sm_90a", set()), (90, 118, 5, "sm_90", {"wgmma"}),
    (90, 118, 4, "compute_89", {"wgmma", "pdl"}),
    (80, 110, 1, "compute_75", {"mma", "wgmma", "pdl"}), (89, 118, 4, "sm_89", {"wgmma", "pdl"}),
    (120, 124, 5, "compute_90", {"wgmma"})])
def test_abilities_are_those_of_what_is_compiled(
        driver: Stub, chip: int, nvrtc: int, known: int, target: str, lacking: set[str],
        rng: np.random.Generator) -> None:
    """An old compiler takes no instructions of newer chips, and no name of theirs."""
    for name, value in (("chip", chip), ("nvrtc", nvrtc), ("chips known", known)):
        driver.set(name, value)
    cards = backend("cuda")
    (device,) = cards.devices()
    assert {*CUDA.abilities} - dict(device.features).keys() == lacking
    bench_of(cards, rng)
    assert cards.gpu("cuda:0").context.found.target == target
    assert not lacking & cards.gpu("cuda:0").features


def test_versions_are_shown() -> None:
    """With a card come its chip and the versions that a report of a fault needs."""
    (card,) = backend("cuda").devices()
    assert card.description == "Stub 0 (sm_90a, CUDA 13.0, NVRTC 12.9)"
    driver = driver_of(vendor("hip"))
    assert driver is not None
    patched = dict(driver.functions, driver_version=lambda at: setattr(at._obj, "value", 60032830))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "functions", patched)
        assert driver.version == "6.0"
        patch.setitem(patched, "driver_version", lambda at: 999)
        assert driver.version == ""


def test_cards_that_lack_something(driver: Stub) -> None:
    driver.set("chip", 37)
    assert "capability is 3.7, and 5.0 is needed: use wgpu:0" in backend("cuda").why_none()
    driver.set("chip", 61)  # the compiler of the stub begins at 75
    assert "older (sm_61) than those that the compiler of version 12.9" in (
        backend("cuda").why_none())
    driver.set("hip chip", 2)
    assert "gfx803 is older than Vega" in backend("hip").why_none()


def test_a_chip_that_is_newer_than_the_compiler(driver: Stub, rng: np.random.Generator) -> None:
    """Its kernels are compiled for the newest one, and translated by the driver."""
    driver.set("chip", 130)
    cards = backend("cuda")
    (device,) = cards.devices()
    assert "sm_130" in device.description
    bench_of(cards, rng)
    assert cards.gpu("cuda:0").context.found.target == "compute_120"


def test_features(driver: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = backend("cuda").devices()
    assert dict(device.features) == dict.fromkeys(
        ("subgroups", "int_dot", "mma", "pdl", "wgmma"), True)
    for version, there in ((12020, False), (12030, True)):  # graphs of the first can't have it
        driver.set("version", version)
        (device,) = backend("cuda").devices()
        assert ("pdl" in dict(device.features)) == there
    monkeypatch.setenv("UNLADEN_CUDA_FEATURES", "mma")
    (device,) = backend("cuda").devices()
    assert [f for f, used in device.features if used] == ["mma"]
    monkeypatch.setenv("UNLADEN_HIP_FEATURES", "mma")
    with pytest.raises(InvalidArgument, match="UNLADEN_HIP_FEATURES: mma is no ability"):
        backend("hip").devices()
    driver.set("chip", 75)
    monkeypatch.setenv("UNLADEN_CUDA_FEATURES", "none")
    (device,) = backend("cuda").devices()
    assert device.features == (("subgroups", False), ("int_dot", False))


def test_a_cache_that_cannot_be_written(driver: Stub, rng: np.random.Generator,
                                        monkeypatch: pytest.MonkeyPatch,
                                        caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", "/dev/null/kernels")
    with caplog.at_level(logging.WARNING, "unladen"):
        bench_of(backend("cuda"), rng)
    assert "UNLADEN_KERNEL_CACHE" in caplog.text
