"""``unladen doctor`` reports everything, as text and as JSON."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Run, Shell
from stub_driver import stub
from unladen import backends, devices, gpu
from unladen.backends import Device, registry
from unladen.errors import BackendNotInitialised


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
            assert any(line.split()[:1] == [name] and backend.why_none() in line
                       for line in ran.out.splitlines())
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
    assert backends.supports_gpu_offload() == any(
        not d.is_host and not d.is_software for d in devices())


def test_software_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Device("cpu:0", "", 1, is_host=True), Device("opencl:0", "", 1, is_software=True)]
    monkeypatch.setattr(backends, "all_devices", lambda: found)
    assert not backends.supports_gpu_offload()
    found.append(Device("cuda:0", "", 1))
    assert backends.supports_gpu_offload()


def test_memory_of_a_container(unladen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that this process may use is shown where it is less than the machine's."""
    from unladen.backends import _host
    monkeypatch.setattr(_host, "total_host_bytes", lambda: 512 << 20)
    monkeypatch.setattr(_host, "free_host_bytes", lambda: 100 << 20)
    monkeypatch.setattr(_host, "memory_lock_limit", lambda: 8 << 20)
    monkeypatch.setattr(_host, "machine_bytes", lambda: 4096 << 20)
    facts = json.loads(unladen("doctor", "--json").out)["memory"]
    assert facts == {"total_bytes": 512 << 20, "free_bytes": 100 << 20,
                     "machine_bytes": 4096 << 20, "lock_bytes": 8 << 20}
    out = unladen("doctor").out
    assert "100 of 512 MiB free" in out and "512 MiB for this container" in out
    assert "the machine's 4096 MiB" in out and "at most 8 MiB" in out
    monkeypatch.setattr(_host, "machine_bytes", lambda: 512 << 20)
    monkeypatch.setattr(_host, "memory_lock_limit", lambda: None)
    out = unladen("doctor").out
    assert "container" not in out and "ulimit" not in out


def test_caches_and_environment(unladen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                ) -> None:
    hub, packed, kernels = tmp_path / "hub", tmp_path / "packed", tmp_path / "kernels"
    (hub / "blobs").mkdir(parents=True)
    (hub / "blobs" / "a").write_bytes(bytes(3 << 20))
    (hub / "link").symlink_to(hub / "blobs" / "a")
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    monkeypatch.setenv("UNLADEN_PACKED_CACHE", str(packed))
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", str(kernels))
    facts = json.loads(unladen("doctor", "--json").out)
    assert facts["caches"] == {"models": {"path": str(hub), "n_bytes": 3 << 20},
                               "packed": {"path": str(packed), "n_bytes": 0},
                               "kernels": {"path": str(kernels), "n_bytes": 0}}
    assert facts["environment"]["UNLADEN_PACKED_CACHE"] == str(packed)
    out = unladen("doctor").out
    assert f"{hub}, 3 MiB" in out and f"{packed}, empty" in out
    assert facts["packages"]["numpy"] == np.__version__


def test_plugins_that_are_left_out(shell: Shell, tmp_path: Path) -> None:
    """A broken plug-in of every kind is left out, each with one warning; the rest works."""
    texts = {"models": "import no.such.module", "quants": "def (:", "ops": "1 / 0",
             "passes": "x = 1", "tokenizers": "import sys; sys.exit()", "sample": "",
             "commands": "command = 3", "backends": "def create(): return 3"}
    for kind, text in texts.items():
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "broken.py").write_text(text)
    plugins = {"UNLADEN_PLUGIN_PATH": str(tmp_path), "PYTHONUTF8": "1"}
    ran = shell("", "doctor", "--json", **plugins)
    facts = json.loads(ran.out)
    left = {each["where"]: each["why"] for each in facts["left_out"]}
    assert set(left) == {str(tmp_path / kind / "broken.py") for kind in texts}
    assert all(why and "\n" not in why for why in left.values())
    assert {b["name"] for b in facts["backends"]} == set(registry())
    for where in left:
        assert ran.err.count(f"plug-in left out: {where}: ") == 1, ran.err
    shown = shell("", "doctor", **plugins)
    assert ran.code == shown.code == 0
    assert all(where in shown.out.partition("plug-ins left out")[2] for where in left)


def test_a_broken_plugin_stops_no_command(shell: Shell, model: str, tmp_path: Path) -> None:
    for kind in ("models", "commands", "backends", "sample", "quants"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "broken.py").write_text("def f(): f()\nf()")
    (tmp_path / "commands" / "show.py").write_text("def command(): print('mine')")
    for line in (["run", model, "abc", "-n", "3"], ["show", model], ["--version"], ["-h"]):
        ran = shell("", *line, UNLADEN_PLUGIN_PATH=str(tmp_path))
        assert ran.code == 0 and ran.out and "mine" not in ran.out, line
        assert all(text.startswith("plug-in left out: ") for text in ran.err.splitlines()), ran.err


@pytest.mark.parametrize("name", ["wgpu", "opencl", "sycl", "cuda"])
def test_a_bad_variable_is_told_in_the_line_of_its_backend(
        unladen: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A variable that a backend can't follow neither ends the report nor hides other backends."""
    monkeypatch.setenv(variable := f"UNLADEN_{name.upper()}_FEATURES", "foo")
    with stub.installed("cuda", runs=False) if name == "cuda" else nullcontext():
        if not backends.listed(registry()[name])[1].startswith(variable):
            pytest.skip(registry()[name].why_none())
        ran = unladen("doctor")
        facts = {b["name"]: b for b in json.loads(unladen("doctor", "--json").out)["backends"]}
        found = [d.name for d in backends.all_devices()]
        with pytest.raises(BackendNotInitialised, match="abacus"):
            backends.backend_of("abacus")
    assert ran.code == 0 and f"no devices: {variable}: foo is no ability" in ran.out
    assert facts[name]["devices"] == [] and variable in facts[name]["why_none"]
    assert "cpu:0" in found and f"{name}:0" not in found and "cpu:0" in ran.out


def test_what_a_plain_run_uses(unladen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line names the devices of a model that names none; the others say that they compute only by
    name."""
    found = [Device("cpu:0", "a processor", 1, is_host=True), Device("cpu:1", "another", 1)]
    monkeypatch.setattr(registry()["cpu"], "devices", lambda: found)
    monkeypatch.setattr("unladen.assembly.setup.default_devices", lambda: found[:1])
    lines = unladen("doctor").out.splitlines()
    assert "backends       used by default: cpu:0" in lines
    (first, second) = (next(line for line in lines if f"  cpu:{i} " in line) for i in (0, 1))
    assert "only by name" in second and "only by name" not in first
    assert json.loads(unladen("doctor", "--json").out)["used_by_default"] == ["cpu:0"]
    monkeypatch.setenv("UNLADEN_DEVICES", "null:3,CPU")
    assert "used by default: null:3, cpu:0 (UNLADEN_DEVICES)" in unladen("doctor").out
    monkeypatch.setenv("UNLADEN_DEVICES", "abacus:0")
    ran = unladen("doctor")
    assert ran.code == 0 and ("used by default: nothing, as no backend is called 'abacus' "
                              "(UNLADEN_DEVICES)") in ran.out


@pytest.mark.parametrize(("name", "variable", "why"), [
    ("wgpu", "", "slower here"), ("opencl", "", "missing here"),
    ("opencl", "none", "UNLADEN_OPENCL_FEATURES leaves them out")])
def test_why_an_ability_is_not_used(unladen: Run, monkeypatch: pytest.MonkeyPatch, name: str,
                                    variable: str, why: str) -> None:
    device = Device(f"{name}:0", "a card", 1, features=(("int_dot", False), ("subgroups", True)))
    monkeypatch.setattr(registry()[name], "devices", lambda: [device])
    monkeypatch.delenv("UNLADEN_OPENCL_FEATURES", raising=False)
    if variable:
        monkeypatch.setenv("UNLADEN_OPENCL_FEATURES", variable)
    assert f"used: subgroups; not used ({why}): int_dot" in unladen("doctor").out


def test_libraries_of_a_backend(unladen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    about = "2.27.3 (/somewhere/libadds.so)"
    monkeypatch.setattr(registry()["cpu"], "libraries", lambda: {"Adds": about}, raising=False)
    assert f"    Adds       {about}" in unladen("doctor").out.splitlines()
    found = {b["name"]: b["libraries"] for b in json.loads(unladen("doctor", "--json").out)[
        "backends"]}
    assert found["cpu"] == {"Adds": about} and found["null"] == {}
