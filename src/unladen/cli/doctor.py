"""``unladen doctor``: what of this machine can be used, and why the rest can't."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Annotated, Any

import typer

MIB = 1 << 20


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
) -> None:
    """Show processor, memory, every backend with its devices or why it has none, and drivers."""
    facts = {"unladen": _version(), "processor": _processor(), "memory": _memory(),
             "backends": _backends(), "drivers": _drivers(), "supports": _supports()}
    if as_json:
        json.dump(facts, sys.stdout)
        sys.stdout.write("\n")
        return
    _print(facts)


def _version() -> dict[str, str]:
    from unladen import __version__
    return {"version": __version__, "python": platform.python_version(),
            "system": platform.platform(terse=True)}


def _processor() -> dict[str, Any]:
    from unladen.backends.cpu import features
    return {"name": features.processor_name(), "machine": platform.machine(),
            "instruction_sets": features.instruction_sets(), "isa_levels": features.isa_levels(),
            "isa_level": features.isa_level(), "isa_forced": features.ISA_VARIABLE in os.environ,
            "n_cores": features.n_physical_cores(), "n_hardware_threads": os.cpu_count() or 1}


def _memory() -> dict[str, int]:
    from unladen.backends._host import free_host_bytes, total_host_bytes
    return {"total_bytes": total_host_bytes(), "free_bytes": free_host_bytes()}


def _backends() -> list[dict[str, Any]]:
    from unladen.backends import registry
    return [{"name": name, "why_none": backend.why_none(),
             "devices": [{"name": d.name, "description": d.description,
                          "memory_bytes": d.memory_bytes, "is_host": d.is_host,
                          "features": dict(d.features)}
                         for d in backend.devices()]}
            for name, backend in sorted(registry().items())]


def _drivers() -> dict[str, Any]:
    from unladen import gpu
    n_cuda = gpu.cuda_device_count()
    return {"cuda": {"n_devices": n_cuda,
                     "memory": [gpu.cuda_memory_info(i) for i in range(n_cuda)]},
            "metal": gpu.metal_available(), "rocm": gpu.rocm_available(),
            "vulkan": gpu.vulkan_available()}


def _supports() -> dict[str, bool]:
    from unladen import backends
    return {"gpu_offload": backends.supports_gpu_offload(), "mmap": backends.supports_mmap(),
            "mlock": backends.supports_mlock(), "rpc": backends.supports_rpc()}


def _print(facts: dict[str, Any]) -> None:
    about, cpu, memory = facts["unladen"], facts["processor"], facts["memory"]
    _row("unladen", f"{about['version']}, Python {about['python']}, {about['system']}")
    _row("processor", cpu["name"])
    _row("  cores", f"{cpu['n_cores']} ({cpu['n_hardware_threads']} hardware threads)")
    _row("  has", " ".join(cpu["instruction_sets"]) or "nothing that kernels are made for")
    why = "forced" if cpu["isa_forced"] else "the best"
    _row("  kernels", f"{cpu['isa_level']} ({why} of {', '.join(cpu['isa_levels'])})")
    _row("memory", f"{memory['free_bytes'] // MIB} of {memory['total_bytes'] // MIB} MiB free")
    print("\nbackends")
    for backend in facts["backends"]:
        if not backend["devices"]:
            _row(f"  {backend['name']}", f"no devices: {backend['why_none']}")
        for device in backend["devices"]:
            n = device["memory_bytes"]
            size = f"{n // MIB} MiB" if n else "memory unknown"
            _row(f"  {device['name']}", f"{device['description']}, {size}")
            if device["features"]:
                _row("    features", _used(device["features"]))
    print("\ndrivers")
    _print_drivers(facts["drivers"])
    has = [name.replace("_", " ") for name, there in facts["supports"].items() if there]
    print()
    _row("supports", ", ".join(has) or "nothing beside plain memory")


def _used(features: dict[str, bool]) -> str:
    found: dict[str, list[str]] = {}
    for name, is_used in features.items():
        found.setdefault("used" if is_used else "not used", []).append(name)
    return "; ".join(f"{', '.join(names)} {use}" for use, names in sorted(found.items()))


def _print_drivers(drivers: dict[str, Any]) -> None:
    cuda = drivers["cuda"]
    _row("  cuda", f"{cuda['n_devices']} devices" if cuda["n_devices"]
         else "no driver, or it shows no device")
    for i, (used, total) in enumerate(cuda["memory"]):
        _row(f"    {i}", f"{used // MIB} of {total // MIB} MiB in use")
    for name in ("metal", "rocm", "vulkan"):
        _row(f"  {name}", "has a device" if drivers[name] else "no driver, or it shows no device")


def _row(name: str, text: str) -> None:
    print(f"{name:14} {text}")
