"""``unladen doctor``: all there is to know, for people and for programs."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Run

from unladen import backends, devices, gpu
from unladen.backends import registry


def test_for_people(unladen: Run) -> None:
    ran = unladen("doctor")
    assert ran.code == 0 and not ran.err
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    (cpu,) = registry()["cpu"].devices()
    assert cpu.description in lines["cpu:0"]
    for device in devices():
        assert all(name in ran.out for name, _ in device.features)
    for name, backend in registry().items():
        if not backend.devices():
            assert backend.why_none() in lines[name]
    assert {"unladen", "processor", "cores", "kernels", "memory", "cuda", "metal", "rocm", "vulkan",
            "supports"} <= set(lines)
    assert "mmap" in lines["supports"]


def test_for_programs(unladen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "cuda_device_count", lambda: 1)
    monkeypatch.setattr(gpu, "cuda_memory_info", lambda i: (3 << 20, 8 << 20))
    facts = json.loads(unladen("doctor", "--json").out)
    assert {b["name"]: bool(b["devices"]) for b in facts["backends"]} == {
        name: bool(b.devices()) for name, b in registry().items()}
    assert all(bool(b["devices"]) != bool(b["why_none"]) for b in facts["backends"])
    cpu = facts["processor"]
    assert cpu["isa_level"] == cpu["isa_levels"][-1] and not cpu["isa_forced"]
    assert 1 <= cpu["n_cores"] <= cpu["n_hardware_threads"]
    assert 0 < facts["memory"]["free_bytes"] <= facts["memory"]["total_bytes"]
    assert facts["drivers"]["cuda"] == {"n_devices": 1, "memory": [[3 << 20, 8 << 20]]}
    assert facts["supports"] == {
        "gpu_offload": backends.supports_gpu_offload(), "mmap": True, "mlock": True, "rpc": False}
    assert "3 of 8 MiB" in unladen("doctor").out


def test_devices() -> None:
    assert [d.name for d in devices() if d.is_host] == ["cpu:0"]
    assert backends.supports_gpu_offload() == any(not d.is_host for d in devices())
