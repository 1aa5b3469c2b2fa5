"""Numbers beyond the last device are devices again, and that is said."""

from __future__ import annotations

import pytest

from unladen.backends import BackendOptions, backend_of
from unladen.backends._gpu import numbers
from unladen.backends._gpu.numbers import numbered


@pytest.fixture(autouse=True)
def _untold() -> None:
    numbers._tell.cache_clear()


def test_numbers_start_again(caplog: pytest.LogCaptureFixture) -> None:
    assert [numbered("opencl", "ab", n) for n in range(5)] == list("ababa")
    assert [r.getMessage() for r in caplog.records] == [
        f"opencl:{n} is opencl:{n % 2} again: 2 devices are here" for n in (2, 3, 4)]


def test_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    assert numbered("hip", [7], 0) == numbered("hip", [7], 1) == numbered("hip", [7], 1) == 7
    assert [r.getMessage() for r in caplog.records] == ["hip:1 is hip:0 again: 1 device is here"]


@pytest.mark.parametrize("name", ["opencl", "wgpu", "sycl", "metal", "cuda", "hip"])
def test_every_backend_says_it(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also over the stand-ins of drivers, as far as there is one."""
    backend = backend_of(name)
    if not backend.devices():
        pytest.skip(backend.why_none())
    n = len(backend.devices())
    device = backend.open(f"{name}:{n}", BackendOptions())
    backend.close(device)
    assert f"{name}:{n} is {name}:0 again: {n} device" in caplog.text
