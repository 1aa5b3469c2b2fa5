"""``unladen doctor``: which parts of this machine can be used, and why others can't."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from unladen.cli._table import entry, room
from unladen.cli._text import visible

MIB = 1 << 20
PACKAGES: Final = ("numpy", "typer", "rich", "huggingface_hub", "wgpu", "tokenizers")
"""Packages that unladen uses; the last two are optional."""
SLOWER: Final = frozenset({"wgpu"})
"""Backends that leave out abilities of a device with which kernels would be slower there. They list
only what a device has; others list what it lacks, too."""
BACKEND_OF: Final = {"cuda": "cuda", "metal": "metal", "rocm": "hip", "vulkan": "wgpu"}
"""The backend whose line says more about a driver."""
AT: Final = 15
"""The column of the output in which facts begin, after their names."""


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
) -> None:
    """Show processor, memory, every backend with its devices or why it has none, gpu, caches,
    and plug-ins that were left out."""
    facts = {"unladen": _version(), "processor": _processor(), "memory": _memory(),
             **_used_by_default(), "backends": _backends(),
             "drivers": _drivers(), "supports": _supports(),
             "packages": _packages(), "caches": _caches(), "environment": _environment(),
             "left_out": _left_out()}
    if as_json:
        json.dump(facts, sys.stdout)
        sys.stdout.write("\n")
        return
    columns = room()
    for name, text in _rows(facts):
        print("\n".join(entry(visible(name), visible(text), columns, at=AT)))


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


def _memory() -> dict[str, int | None]:
    """``total_bytes`` is what this process may use, ``machine_bytes`` what the machine has, and
    ``lock_bytes`` what the process may lock (None: no limit)."""
    from unladen.backends import _host
    return {"total_bytes": _host.total_host_bytes(), "free_bytes": _host.free_host_bytes(),
            "machine_bytes": _host.machine_bytes(), "lock_bytes": _host.memory_lock_limit()}


def _backends() -> list[dict[str, Any]]:
    from unladen.backends import listed, registry
    found = []
    for name, backend in sorted(registry().items()):
        devices, why = listed(backend)
        found.append({
            "name": name, "why_none": why, "libraries": dict(backend.libraries()),
            "devices": [{"name": d.name, "description": d.description,
                         "memory_bytes": d.memory_bytes, "is_host": d.is_host,
                         "features": dict(d.features)} for d in devices]})
    return found


def _used_by_default() -> dict[str, Any]:
    """``used_by_default`` has the names of the devices that a model gets which names none, and
    ``why_no_default`` says why it gets none, "" if it gets some."""
    from unladen.assembly.setup import device_names
    from unladen.backends import backend_of
    from unladen.errors import UnladenError
    try:
        names = [str(name) for name in device_names(None)]
        for name in names:
            backend_of(name)
    except UnladenError as error:
        return {"used_by_default": [], "why_no_default": error.message}
    return {"used_by_default": names, "why_no_default": ""}


def _drivers() -> dict[str, Any]:
    from unladen import gpu
    n_cuda = gpu.cuda_device_count()
    return {"cards": gpu.cards(),
            "cuda": {"n_devices": n_cuda,
                     "memory": [gpu.cuda_memory_info(i) for i in range(n_cuda)]},
            "metal": gpu.metal_available(), "rocm": gpu.rocm_available(),
            "vulkan": gpu.vulkan_available()}


def _supports() -> dict[str, bool]:
    from unladen import backends
    return {"gpu_offload": backends.supports_gpu_offload(), "mmap": backends.supports_mmap(),
            "mlock": backends.supports_mlock(), "rpc": backends.supports_rpc()}


def _packages() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _caches() -> dict[str, dict[str, Any]]:
    from unladen.backends._gpu.binaries import folder_of_binaries
    from unladen.hub.stores.hugging_face import hub_cache
    from unladen.storage.packed import folder_of_copies
    folders = {"models": hub_cache(), "packed": folder_of_copies(), "kernels": folder_of_binaries()}
    return {name: {"path": str(folder), "n_bytes": _size_of(folder)}
            for name, folder in folders.items() if folder is not None}


def _size_of(folder: Path) -> int:
    """Bytes of the files in ``folder``; a file with several names counts once."""
    found = {}
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except OSError:
            continue  # another process has just removed it
        if path.is_file() and not path.is_symlink():
            found[status.st_dev, status.st_ino] = status.st_size
    return sum(found.values())


def _environment() -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items())
            if name.startswith("UNLADEN_") or name in ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
                                                       "CUDA_VISIBLE_DEVICES",
                                                       "HIP_VISIBLE_DEVICES")}


def _left_out() -> list[dict[str, str]]:
    from unladen import backends, models, quants
    from unladen.backends._gpu import lowering
    from unladen.cli.app import found as commands
    from unladen.graph import ops, passes
    from unladen.sample import chain
    from unladen.tokenizer import kinds
    registries = (quants.found, ops.found, passes.found, models.found, kinds.found, chain.found,
                  backends.found, lowering.found, commands)
    left = {each.where: each.why for found in registries for each in found().left_out}
    return [{"where": where, "why": why} for where, why in left.items()]


def _rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    about, cpu = facts["unladen"], facts["processor"]
    yield "unladen", f"{about['version']}, Python {about['python']}, {about['system']}"
    yield "  with", ", ".join(f"{name} {version}" for name, version in facts["packages"].items()
                              if version)
    yield "processor", cpu["name"]
    yield "  cores", f"{cpu['n_cores']} ({cpu['n_hardware_threads']} hardware threads)"
    yield "  has", " ".join(cpu["instruction_sets"]) or "nothing that kernels are made for"
    why = "forced" if cpu["isa_forced"] else "the best"
    yield "  kernels", f"{cpu['isa_level']} ({why} of {', '.join(cpu['isa_levels'])})"
    yield from _memory_rows(facts["memory"])
    used = facts["used_by_default"]
    told = " (UNLADEN_DEVICES)" if "UNLADEN_DEVICES" in facts["environment"] else ""
    what = ", ".join(used) or f"nothing, as {facts['why_no_default']}"
    yield from (("", ""), ("backends", f"used by default: {what}{told}"))
    for backend in facts["backends"]:
        yield from _backend_rows(backend, used, facts["environment"])
    yield from (("", ""), ("drivers", ""))
    yield from _driver_rows(facts["drivers"])
    has = [name.replace("_", " ") for name, there in facts["supports"].items() if there]
    yield from (("", ""), ("supports", ", ".join(has) or "nothing beside plain memory"))
    yield from _folder_rows(facts)


def _backend_rows(backend: Mapping[str, Any], used: Sequence[str], variables: Mapping[str, str]
                  ) -> Iterator[tuple[str, str]]:
    if not backend["devices"]:
        yield f"  {backend['name']}", f"no devices: {backend['why_none']}"
    variable = f"UNLADEN_{backend['name'].upper()}_FEATURES"
    why = ("slower here" if backend["name"] in SLOWER else "missing here")
    if variable in variables:
        why = f"{variable} leaves them out"
    for device in backend["devices"]:
        n = device["memory_bytes"]
        facts = [device["description"], f"{n // MIB} MiB" if n else "memory unknown"]
        if device["name"] not in used:
            facts.append("only by name")
        yield f"  {device['name']}", ", ".join(facts)
        if device["features"]:
            yield "    features", _used(device["features"], why)
    yield from ((f"    {name}", about) for name, about in backend["libraries"].items())


def _memory_rows(memory: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "memory", f"{memory['free_bytes'] // MIB} of {memory['total_bytes'] // MIB} MiB free"
    if memory["machine_bytes"] > memory["total_bytes"]:
        yield "  limit", (f"{memory['total_bytes'] // MIB} MiB for this container or service, of "
                          f"the machine's {memory['machine_bytes'] // MIB} MiB")
    if memory["lock_bytes"] is not None:
        yield "  mlock", (f"at most {memory['lock_bytes'] // MIB} MiB (ulimit -l)")


def _used(features: Mapping[str, bool], why: str) -> str:
    """The abilities that kernels use, and the others with ``why`` they don't."""
    kinds = {"used": [f for f, is_used in features.items() if is_used],
             f"not used ({why})": [f for f, is_used in features.items() if not is_used]}
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def _driver_rows(drivers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cuda = drivers["cuda"]
    yield "  cards", ", ".join(drivers["cards"]) or "no graphics processor was found"
    yield "  cuda", (f"{cuda['n_devices']} devices" if cuda["n_devices"]
                     else _no_device("cuda"))
    for i, (used, total) in enumerate(cuda["memory"]):
        yield f"    {i}", f"{used // MIB} of {total // MIB} MiB in use"
    for name in ("metal", "rocm", "vulkan"):
        yield f"  {name}", "has a device" if drivers[name] else _no_device(name)


def _no_device(driver: str) -> str:
    return f"no driver, or it shows no device; {BACKEND_OF[driver]} above says what to do"


def _folder_rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (("", ""), ("caches", ""))
    for name, cache in facts["caches"].items():
        n = cache["n_bytes"]
        yield f"  {name}", f"{cache['path']}, {f'{n // MIB} MiB' if n else 'empty'}"
    if facts["environment"]:
        yield from (("", ""), ("environment", ""))
        yield from ((f"  {name}", value) for name, value in facts["environment"].items())
    if facts["left_out"]:
        yield from (("", ""), ("plug-ins left out", ""))
        yield from ((f"  {left['where']}", left["why"]) for left in facts["left_out"])
