"""AMD's HIP runtime and hiprtc: their names, and what each chip can do."""

from __future__ import annotations

import ctypes
import re
from ctypes import POINTER, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from unladen.backends._gpu import c_texts, drivers
from unladen.backends._gpu.cuda_like.vendor import LOST, Chip, Collectives, Vendor
from unladen.backends._gpu.loading import below, load_library

PROPERTIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
"""Functions with a device's properties, the newer one first."""
PROPERTIES_BYTES = 1 << 14
"""More bytes than the properties have in any version."""
CHIP = re.compile(rb"gfx[0-9a-f]{3,5}[0-9a-z:+-]*")
"""The name of a chip among a device's properties, whose places change from version to version."""
INT_DOT = re.compile(r"gfx(906|908|90a|94[012]|950|101[12]|103[0-6]|1[12][0-9a-f]{2})")
"""Chips with an instruction that multiplies four pairs of int8: dot1-insts or, since gfx11,
dot8-insts of LLVM."""


def chip_of(driver: Any, number: int, capability: tuple[int, int]) -> Chip | str:
    """The chip of device ``number``, or why it can't be used."""
    library = load_library(driver.vendor.libraries, "hipInit")
    data = ctypes.create_string_buffer(PROPERTIES_BYTES)
    for name in PROPERTIES:
        if hasattr(library, name) and getattr(library, name)(data, number) == 0:
            found = CHIP.search(data.raw)
            return chip_named(found[0].decode()) if found else "its driver doesn't name its chip"
    return "its driver doesn't tell its properties"


def chip_named(name: str) -> Chip | str:
    """The chip called ``name``, with the settings that the driver adds ("gfx90a:xnack-")."""
    stem = name.partition(":")[0]
    if not re.match(r"gfx(9|1[0-9])", stem):
        return f"its chip {stem} is older than Vega (gfx900)"
    there = {"subgroups"} | ({"int_dot"} if INT_DOT.fullmatch(stem) else set())
    return Chip(name, 0, frozenset(there))


def in_sdk() -> list[str]:
    """Paths of hiprtc in the HIP SDK for Windows."""
    return below("HIP_PATH", ("bin",), "hiprtc[0-9]*.dll")


def options(target: str) -> tuple[str, ...]:
    """The compiler's options."""
    return f"--gpu-architecture={target}", "-O3", "-std=c++17"


HIP = Vendor(
    backend="hip", maker="AMD", driver="AMD's HIP runtime", platform="HIP", major=10_000_000,
    compiler="hiprtc", libraries=drivers.HIP,
    compilers=("libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
               "hiprtc0700.dll", "hiprtc0604.dll", "hiprtc0602.dll", "hiprtc0507.dll",
               *drivers.HIP),
    find_compiler=in_sdk, error_name="hipGetErrorName", returns_name=True,
    port=c_texts.FOLDER / "ports/hip.h", chip_of=chip_of, abilities=("subgroups", "int_dot"),
    options=options, name_for=lambda chip, major: chip.name,
    compiled_for=lambda chip, target: chip,
    no_driver="install ROCm (https://rocm.docs.amd.com), or on Windows the HIP SDK",
    no_cards=("see what rocminfo says, and whether this user may open /dev/kfd (group render); "
              "HIP_VISIBLE_DEVICES may hide cards"),
    no_compiler="it needs hiprtc, which is a part of ROCm: install the package hip-runtime-amd",
    no_device=frozenset({100, 101}), lost=LOST, features_variable="UNLADEN_HIP_FEATURES",
    may_abort=True, compiler_is_of_driver=True, contexts_are_numbers=True,
    collectives=Collectives("RCCL", ("librccl.so.1", "librccl.so"), list,
                            "install the package rccl of ROCm"),
    types={"set_current": (c_int,), "current": (POINTER(c_int),),
           "enable_access": (c_int, ctypes.c_uint),
           "copy_peer": (c_uint64, c_int, c_uint64, c_int, c_size_t, c_void_p),
           "capability": (POINTER(c_int), POINTER(c_int), c_int)},
    symbols={
        "init": "hipInit", "driver_version": "hipDriverGetVersion",
        "device_count": "hipGetDeviceCount", "device": "hipDeviceGet",
        "device_name": "hipDeviceGetName", "device_bytes": "hipDeviceTotalMem",
        "capability": "hipDeviceComputeCapability",
        "retain": "hipDevicePrimaryCtxRetain", "release": "hipDevicePrimaryCtxRelease",
        "reset": "hipDevicePrimaryCtxReset", "set_current": "hipSetDevice",
        "current": "hipGetDevice",
        "can_access": "hipDeviceCanAccessPeer", "enable_access": "hipDeviceEnablePeerAccess",
        "memory_info": "hipMemGetInfo", "alloc": "hipMalloc", "free": "hipFree",
        "alloc_host": "hipHostMalloc", "free_host": "hipHostFree",
        "upload": "hipMemcpyHtoDAsync", "download": "hipMemcpyDtoHAsync",
        "copy": "hipMemcpyDtoDAsync", "copy_peer": "hipMemcpyPeerAsync",
        "fill": "hipMemsetD8Async", "stream": "hipStreamCreateWithFlags",
        "destroy_stream": "hipStreamDestroy", "sync_stream": "hipStreamSynchronize",
        "query_stream": "hipStreamQuery", "wait_event": "hipStreamWaitEvent",
        "event": "hipEventCreateWithFlags", "destroy_event": "hipEventDestroy",
        "record_event": "hipEventRecord", "sync_event": "hipEventSynchronize",
        "query_event": "hipEventQuery",
        "begin_capture": "hipStreamBeginCapture", "end_capture": "hipStreamEndCapture",
        "instantiate": "hipGraphInstantiateWithFlags", "destroy_graph": "hipGraphDestroy",
        "launch_graph": "hipGraphLaunch", "destroy_recorded": "hipGraphExecDestroy",
        "load": "hipModuleLoadData", "unload": "hipModuleUnload",
        "function": "hipModuleGetFunction", "launch": "hipModuleLaunchKernel"},
    compiler_symbols={
        "version": "hiprtcVersion", "create": "hiprtcCreateProgram",
        "compile": "hiprtcCompileProgram", "destroy": "hiprtcDestroyProgram",
        "log_size": "hiprtcGetProgramLogSize", "log": "hiprtcGetProgramLog",
        "code_size": "hiprtcGetCodeSize", "code": "hiprtcGetCode"})
"""AMD's HIP runtime of the user's ROCm. Memory doesn't grow: the structs for that differ between
its versions."""
