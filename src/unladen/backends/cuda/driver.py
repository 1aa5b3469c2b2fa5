"""NVIDIA's driver and NVRTC: their names, and what each chip can do."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unladen.backends._gpu import c_texts, drivers
from unladen.backends._gpu.cuda_like.vendor import LOST, Chip, Collectives, Vendor
from unladen.backends._gpu.loading import below

PACKAGES = ("nvidia.cuda_nvrtc", "nvidia.cu13")
"""Packages of PyPI with NVRTC: that of version 12, which unladen asks for, and that of 13."""
PATTERNS = ("lib/libnvrtc.so.*", "bin/nvrtc64_*_0.dll", "bin/x86_64/nvrtc64_*_0.dll")
"""The library in such a package, on Linux and on Windows."""
NCCL_PACKAGES, NCCL_PATTERNS = ("nvidia.nccl",), ("lib/libnccl.so.*",)
"""The package of PyPI with NCCL, and the library in it. NCCL isn't made for Windows."""
OLDEST = 50
"""The oldest chip that kernels are compiled for: Maxwell."""
EARLY_IN_GRAPHS = 12030
"""The first version of the driver (12.3) whose graphs may have kernels that start early ("pdl")."""
ABILITIES = {"subgroups": 50, "int_dot": 61, "mma": 80, "pdl": 90}
"""The first chip with each ability. "wgmma" is of 90 alone."""


def packaged() -> list[str]:
    """Paths of NVRTC in packages of this Python, and then on Windows those in a toolkit."""
    return [*_in_packages(PACKAGES, PATTERNS),
            *below("CUDA_PATH", ("bin", "bin/x64"), "nvrtc64_*_0.dll")]


def packaged_nccl() -> list[str]:
    """Paths of NCCL, likewise."""
    return _in_packages(NCCL_PACKAGES, NCCL_PATTERNS)


def _in_packages(packages: Sequence[str], patterns: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in packages:
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            paths = [path for pattern in patterns for path in sorted(Path(folder).glob(pattern))]
            found += [str(path) for path in paths if ".alt." not in path.name]
    return found


def chip_of(driver: Any, number: int, capability: tuple[int, int]) -> Chip | str:
    """The chip of a device with this capability, or why it can't be used."""
    chip, version = 10 * capability[0] + capability[1], ctypes.c_int(0)
    if chip < OLDEST:
        return (f"its compute capability is {capability[0]}.{capability[1]}, and 5.0 is needed: "
                "use wgpu:0, which needs Vulkan alone, or a libggml that was built for it")
    found = chip_named(chip)
    if driver.functions["driver_version"](ctypes.byref(version)) or version.value < EARLY_IN_GRAPHS:
        return replace(found, abilities=found.abilities - {"pdl"})
    return found


def chip_named(chip: int) -> Chip:
    """The chip with this number."""
    there = {name for name, first in ABILITIES.items() if chip >= first}
    if chip == 90:
        return Chip("sm_90a", chip, frozenset(there | {"wgmma"}))
    return Chip(f"sm_{chip}", chip, frozenset(there))


def name_for(chip: Chip, major: int) -> str:
    """The name of ``chip`` for NVRTC of this major version: before 12 it has none for chips of 9.0
    with all that they have."""
    return chip.name if major >= 12 else chip.name.rstrip("a")


def compiled_for(chip: Chip, target: str) -> Chip:
    """The chip as code for ``target`` can use it: code for an older chip has its instructions
    alone."""
    number, mine = int("".join(filter(str.isdigit, target))), {*chip.abilities}
    mine -= {name for name, first in ABILITIES.items() if number < first}
    return replace(chip, abilities=frozenset(mine if target == chip.name else mine - {"wgmma"}))


def options(target: str) -> tuple[str, ...]:
    """The compiler's options."""
    return f"--gpu-architecture={target}", "--std=c++17"


CUDA = Vendor(
    backend="cuda", maker="NVIDIA", driver="NVIDIA's driver", platform="CUDA", major=1000,
    compiler="NVRTC", libraries=drivers.CUDA,
    compilers=("libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so", "nvrtc64_120_0.dll",
               "nvrtc64_130_0.dll"),
    find_compiler=packaged, name_for=name_for, compiled_for=compiled_for,
    newer_compiler=("update the driver, or pip install nvidia-cuda-nvrtc-cu{major} instead of this "
                    "one"),
    # NVRTC compiles in each thread by itself, and takes some hundred megabytes for each.
    n_compiled_at_once=8,
    error_name="cuGetErrorName", port=c_texts.FOLDER / "ports/cuda.h",
    chip_of=chip_of, abilities=(*ABILITIES, "wgmma"), options=options,
    no_driver="install it from your system or https://www.nvidia.com/drivers",
    no_cards="see what nvidia-smi says; CUDA_VISIBLE_DEVICES may hide cards",
    no_compiler="it needs NVRTC, NVIDIA's run-time compiler: pip install 'unladen[cuda]', "
                "which brings nvidia-cuda-nvrtc-cu12",
    no_device=frozenset({34, 100}), lost=LOST, features_variable="UNLADEN_CUDA_FEATURES",
    plain_variable="UNLADEN_CUDA_NO_VMM",
    # NVLink SHARP, in which a switch adds, came with chips of 9.0.
    collectives=Collectives(
        "NCCL", ("libnccl.so.2",), packaged_nccl,
        "pip install nvidia-nccl-cu12, or -cu13 with a driver for CUDA 13 (490 MB unpacked)",
        any_order=90, fixed_order=("NCCL_NVLS_ENABLE", "0")),
    symbols={
        "init": "cuInit", "driver_version": "cuDriverGetVersion",
        "device_count": "cuDeviceGetCount", "device": "cuDeviceGet",
        "device_name": "cuDeviceGetName", "device_bytes": "cuDeviceTotalMem_v2",
        "capability": "cuDeviceComputeCapability",
        "retain": "cuDevicePrimaryCtxRetain", "release": "cuDevicePrimaryCtxRelease_v2",
        "reset": "cuDevicePrimaryCtxReset_v2", "set_current": "cuCtxSetCurrent",
        "current": "cuCtxGetCurrent",
        "can_access": "cuDeviceCanAccessPeer", "enable_access": "cuCtxEnablePeerAccess",
        "memory_info": "cuMemGetInfo_v2", "alloc": "cuMemAlloc_v2", "free": "cuMemFree_v2",
        "alloc_host": "cuMemHostAlloc", "free_host": "cuMemFreeHost",
        "upload": "cuMemcpyHtoDAsync_v2", "download": "cuMemcpyDtoHAsync_v2",
        "copy": "cuMemcpyDtoDAsync_v2", "copy_peer": "cuMemcpyPeerAsync",
        "fill": "cuMemsetD8Async", "stream": "cuStreamCreate",
        "destroy_stream": "cuStreamDestroy_v2", "sync_stream": "cuStreamSynchronize",
        "query_stream": "cuStreamQuery", "wait_event": "cuStreamWaitEvent",
        "event": "cuEventCreate", "destroy_event": "cuEventDestroy_v2",
        "record_event": "cuEventRecord", "sync_event": "cuEventSynchronize",
        "query_event": "cuEventQuery",
        "begin_capture": "cuStreamBeginCapture_v2", "end_capture": "cuStreamEndCapture",
        "instantiate": "cuGraphInstantiateWithFlags", "destroy_graph": "cuGraphDestroy",
        "launch_graph": "cuGraphLaunch", "destroy_recorded": "cuGraphExecDestroy",
        "load": "cuModuleLoadData", "unload": "cuModuleUnload",
        "function": "cuModuleGetFunction", "launch": "cuLaunchKernel",
        "granularity": "cuMemGetAllocationGranularity", "create_pages": "cuMemCreate",
        "release_pages": "cuMemRelease", "reserve": "cuMemAddressReserve",
        "unreserve": "cuMemAddressFree", "map": "cuMemMap", "unmap": "cuMemUnmap",
        "allow": "cuMemSetAccess", "launch_with": "cuLaunchKernelEx",
        "device_number": "cuDeviceGetAttribute", "set_function": "cuFuncSetAttribute"},
    compiler_symbols={
        "version": "nvrtcVersion", "create": "nvrtcCreateProgram",
        "compile": "nvrtcCompileProgram", "destroy": "nvrtcDestroyProgram",
        "log_size": "nvrtcGetProgramLogSize", "log": "nvrtcGetProgramLog",
        "code_size": "nvrtcGetCUBINSize", "code": "nvrtcGetCUBIN",
        "n_chips": "nvrtcGetNumSupportedArchs", "chips": "nvrtcGetSupportedArchs",
        "text_size": "nvrtcGetPTXSize", "text": "nvrtcGetPTX"})
"""NVIDIA's driver, and NVRTC from PyPI or from a toolkit."""
