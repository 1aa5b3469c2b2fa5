"""Backends of either family of kernels, with chosen features."""

from __future__ import annotations

import pytest

from cases import running
from emulator.backend import EmulatorBackend
from unladen.backends import registry
from unladen.backends.base import Backend
from unladen.backends.opencl import features as of_opencl
from unladen.backends.wgpu import features as of_wgpu
from unladen.errors import BackendNotInitialised

VARIABLES = {"opencl": of_opencl.VARIABLE, "wgpu": of_wgpu.VARIABLE}


def opened(name: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A backend: "emulator", "opencl" or "wgpu", and after it the features that kernels use
    ("emulator subgroups mma"). By default the emulator uses none, and the others use what suits
    the device. Skips where there is no device."""
    kind, *features = name.split()
    if kind == "emulator":
        return EmulatorBackend(frozenset(features))
    backend = registry()[kind]
    if features:
        monkeypatch.setenv(VARIABLES[kind], ",".join(features))
        backend = type(backend)()  # the other has its devices open
    try:
        running.device_of(backend)
    except BackendNotInitialised:
        pytest.skip(backend.why_none())
    return backend
