"""What every backend promises beside numbers: memory, devices, names, options."""

from __future__ import annotations

import mmap
import sys

import numpy as np
import pytest

from unladen.backends import all_devices, backend_of, registry
from unladen.backends._host import HostBuffer
from unladen.backends.base import Backend, BackendOptions, Buffer, Device, device_number
from unladen.backends.cpu import CpuBackend
from unladen.backends.cpu.features import ISA_VARIABLE, isa_level
from unladen.errors import BackendNotInitialised, InvalidArgument, OutOfMemory

NAMES = sorted(registry())


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> Backend:
    backend = backend_of(request.param)
    try:
        backend.open(backend.name, BackendOptions())
    except BackendNotInitialised:
        pytest.skip(f"{request.param}: {backend.why_none()}")
    return backend


@pytest.fixture
def device(backend: Backend) -> Device:
    return backend.open(backend.name, BackendOptions())


def test_registry_names_each_backend_as_it_names_itself() -> None:
    assert {"cpu", "null", "reference"} <= set(registry())
    assert all(name == backend.name for name, backend in registry().items())


def test_devices_belong_to_their_backend() -> None:
    for name, backend in registry().items():
        for device in backend.devices():
            assert device.name.partition(":")[0] == name
            assert backend.open(device.name, BackendOptions()) == device
        assert bool(backend.devices()) != bool(backend.why_none()), name
    assert {d.name.partition(":")[0] for d in all_devices()}.isdisjoint({"null", "reference"})


def test_a_bare_name_is_the_first_device(backend: Backend) -> None:
    options = BackendOptions()
    assert backend.open(backend.name, options) == backend.open(f"{backend.name}:0", options)


@pytest.mark.parametrize("number", ["x", "-1", "1.0", "", " 1", "\u00b2", "\u0663"])
def test_names_that_are_no_device(backend: Backend, number: str) -> None:
    with pytest.raises(BackendNotInitialised, match="no device") as error:
        backend.open(f"{backend.name}:{number}", BackendOptions())
    assert backend.name in error.value.hint


def test_device_numbers() -> None:
    assert [device_number(d) for d in ("cpu", "cpu:0", "cpu:12", "cpu:007")] == [0, 0, 12, 7]


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(BackendNotInitialised, match="abacus") as error:
        backend_of("abacus:0")
    assert "cpu" in error.value.hint


def test_new_memory_is_zero(backend: Backend, device: Device) -> None:
    for use in ("weights", "kv", "arena"):
        for nbytes in (0, 1, 4096, 100_001):
            buffer = backend.alloc(device, nbytes, use)  # type: ignore[arg-type]
            assert isinstance(buffer, Buffer)
            assert buffer.nbytes == nbytes and buffer.device == device
            assert not backend.read(buffer, nbytes).any()
    assert backend.alloc(device, 4096, "staging").nbytes == 4096


def test_bytes_come_back(backend: Backend, device: Device, rng: np.random.Generator) -> None:
    if backend.name == "null":
        pytest.skip("null keeps no bytes")
    buffer = backend.alloc(device, 1000, "arena")
    expected = np.zeros(1000, np.uint8)
    for offset, n in [(0, 10), (3, 500), (999, 1), (40, 0), (0, 1000)]:
        data = rng.integers(0, 256, n, np.uint8)
        backend.write(buffer, data, offset)
        expected[offset:offset + n] = data
        assert np.array_equal(backend.read(buffer, 1000), expected)
        assert np.array_equal(backend.read(buffer, n, offset), data)


def test_bytes_written_ahead_come_back(backend: Backend, device: Device, rng: np.random.Generator
                                       ) -> None:
    """Also in several pieces, and none; what was read before keeps the old bytes."""
    buffer = backend.alloc(device, 1000, "weights")
    expected = np.zeros(1000, np.uint8)
    for pieces in ([(0, 10)], [(4, 500), (996, 4)], [(40, 0)], [(0, 1000)]):
        before, old = backend.fetch(buffer, 1000), expected.copy()
        mark = backend.mark(device)
        arrivals = []
        for offset, n in pieces:
            data = rng.integers(0, 256, n, np.uint8)
            arrivals.append((backend.write_ahead(buffer, data, offset, after=mark), data))
            expected[offset:offset + n] = data
        for arrive, _ in arrivals:
            arrive()
        after = backend.read(buffer, 1000)
        assert backend.name == "null" or np.array_equal(after, expected)
        assert np.array_equal(before(), old if backend.name != "null" else after)


def test_what_nobody_needs_can_be_written_again(backend: Backend, device: Device,
                                                rng: np.random.Generator) -> None:
    n = 10 * mmap.PAGESIZE
    buffer = backend.alloc(device, n, "arena")
    for densely_used in (False, True, True, False):
        data = rng.integers(1, 256, n, np.uint8)
        backend.write(buffer, data)
        assert backend.name == "null" or np.array_equal(backend.read(buffer, n), data)
        backend.discard(buffer, densely_used=densely_used)
        if isinstance(buffer, HostBuffer) and sys.platform == "linux":
            assert not backend.read(buffer, n).any()  # new pages: the old ones are the system's


def test_a_fetch_sees_what_was_there(backend: Backend, device: Device, rng: np.random.Generator
                                     ) -> None:
    """Whatever is written before it is waited for; one that nobody waits for does no harm."""
    buffer = backend.alloc(device, 1024, "arena")
    staging = backend.alloc(device, 1024, "staging")
    expected, waits = [], []
    for offset, n in [(0, 4), (8, 512), (256, 768), (1020, 4)]:
        data = rng.integers(0, 256, 1024, np.uint8)
        backend.write(buffer, data)
        waits.append(backend.fetch(buffer, n, offset))
        backend.fetch(buffer, n, offset)
        backend.fetch(buffer, n, offset, staging)
        expected.append(data[offset:offset + n] if backend.name != "null" else np.zeros(n))
    backend.write(buffer, np.zeros(1024, np.uint8))
    for i in rng.permutation(len(waits)):
        assert np.array_equal(waits[i](), expected[i])


def test_copies_between_buffers(backend: Backend, device: Device, rng: np.random.Generator
                                ) -> None:
    source, target = (backend.alloc(device, 300, "kv") for _ in range(2))
    data = rng.integers(0, 256, 300, np.uint8)
    backend.write(source, data)
    if backend.copy(target, 17, source, 100, 50) and backend.name != "null":
        backend.sync(device)
        expected = np.zeros(300, np.uint8)
        expected[17:67] = data[100:150]
        assert np.array_equal(backend.read(target, 300), expected)


def test_wrapping_costs_no_copy(backend: Backend, device: Device, rng: np.random.Generator
                                ) -> None:
    data = rng.integers(0, 256, 64, np.uint8)
    data.flags.writeable = False
    buffer = backend.wrap(device, data)
    assert device.is_host == (buffer is not None)
    if buffer is not None:
        assert np.shares_memory(backend.read(buffer, 64), data)
        assert buffer.nbytes == 64


def test_too_much_memory(backend: Backend, device: Device) -> None:
    wanted = 1 << 55
    with pytest.raises(OutOfMemory) as error:
        backend.alloc(device, wanted, "weights")
    assert error.value.device == device.name
    assert error.value.requested == wanted
    assert 0 <= error.value.free < wanted
    assert isinstance(error.value, MemoryError)


@pytest.mark.parametrize("name", ["n_threads", "n_threads_batch"])
@pytest.mark.parametrize("value", [0, -1, 256])
def test_threads_out_of_range(name: str, value: int) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}={value}"):
        backend_of("cpu").open("cpu", BackendOptions(**{name: value}))


def test_an_impossible_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISA_VARIABLE, "mmx")
    with pytest.raises(InvalidArgument, match="mmx") as error:
        CpuBackend()
    assert "portable" in error.value.hint


def test_the_instruction_set_is_in_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISA_VARIABLE, "portable")
    assert isa_level() == "portable"
    (device,) = CpuBackend().devices()
    assert "portable" in device.description
