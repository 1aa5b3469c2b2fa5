"""Functions, numbers and structs are those of the makers' headers, where these are installed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends._gpu.cuda_like.headers import Headers, expressions_of, folder_of, plain, roots
from unladen.backends._gpu.cuda_like import memory, program, staging, streams, vendor
from unladen.backends._gpu.cuda_like.vendor import Vendor
from unladen.backends.cuda.driver import CUDA
from unladen.backends.hip.driver import HIP, PROPERTIES_BYTES

TABLES = {**vendor.FUNCTIONS, **vendor.OPTIONAL}
COMPILER_TABLES = {**vendor.COMPILES, **vendor.COMPILES_MORE}
NUMBERS = {
    "NON_BLOCKING": (streams.NON_BLOCKING, "CU_STREAM_NON_BLOCKING", "hipStreamNonBlocking"),
    "NO_TIMING": (streams.NO_TIMING, "CU_EVENT_DISABLE_TIMING", "hipEventDisableTiming"),
    "PORTABLE": (staging.PORTABLE, "CU_MEMHOSTALLOC_PORTABLE", "hipHostMallocPortable"),
    "RELAXED": (program.RELAXED, "CU_STREAM_CAPTURE_MODE_RELAXED", "hipStreamCaptureModeRelaxed"),
    "OUT_OF_MEMORY": (vendor.OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory"),
    "NOT_READY": (vendor.NOT_READY, "CUDA_ERROR_NOT_READY", "hipErrorNotReady"),
    "ALREADY_ALLOWED": (vendor.ALREADY_ALLOWED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
                        "hipErrorPeerAccessAlreadyEnabled")}
"""Numbers of ours, and their names in the two makers' headers."""
CUDA_NUMBERS = {
    "EARLY_START": (program.EARLY_START, "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"),
    "DEVICE_MEMORY": (memory.DEVICE_MEMORY, "CU_MEM_LOCATION_TYPE_DEVICE"),
    "PINNED_PAGES": (memory.PINNED_PAGES, "CU_MEM_ALLOCATION_TYPE_PINNED"),
    "READ_WRITE": (memory.READ_WRITE, "CU_MEM_ACCESS_FLAGS_PROT_READWRITE"),
    "UNAVAILABLE": (vendor.UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    "NOT_SUPPORTED": (vendor.NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"),
    "MOST_LAUNCHED": (vendor.MOST_LAUNCHED,
                      "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
    "LAUNCHED": (vendor.LAUNCHED, "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"),
    "least granularity": (0, "CU_MEM_ALLOC_GRANULARITY_MINIMUM")}
CUDA_LOST = [
    "DEINITIALIZED", "INVALID_CONTEXT", "ECC_UNCORRECTABLE",
    "NVLINK_UNCORRECTABLE", "CONTAINED", "ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT",
    "CONTEXT_IS_DESTROYED", "ASSERT", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION",
    "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED",
    "TENSOR_MEMORY_LEAK", "UNKNOWN"]
HIP_LOST = [
    "Deinitialized", "InvalidContext", "ECCNotCorrectable", "IllegalAddress", "LaunchTimeOut",
    "ContextIsDestroyed", "Assert", "LaunchFailure", "Unknown"]
"""Errors after which a device takes no more work. HIP has no others of these."""
STRUCTS: Sequence[tuple[type[ctypes.Structure], str, Mapping[str, str]]] = [
    (memory._Pages, "CUmemAllocationProp", {
        "type": "type", "handle_types": "requestedHandleTypes", "location_type": "location.type",
        "location_id": "location.id", "win32_meta": "win32HandleMetaData", "flags": "allocFlags"}),
    (memory._Access, "CUmemAccessDesc", {
        "location_type": "location.type", "location_id": "location.id", "flags": "flags"}),
    (program._Attribute, "CUlaunchAttribute", {
        "id": "id", "pad": "pad",
        "value": "value.programmaticStreamSerializationAllowed"}),
    (program._Launch, "CUlaunchConfig", {
        "sizes": "gridDimX", "shared_bytes": "sharedMemBytes", "stream": "hStream",
        "attributes": "attrs", "n_attributes": "numAttrs"})]


def symbols_of(maker: Vendor) -> list[str]:
    return [maker.symbols[name] for name in TABLES if name in maker.symbols]


def check_functions(headers: Headers, symbols: Mapping[str, str], tables: Mapping[str, Any],
                    types: Mapping[str, Any]) -> None:
    found = []
    for name, symbol in symbols.items():
        meant, _ = headers.function[symbol]
        if meant != symbol:
            found.append(f"{plain(symbol)} means {meant}, and not {symbol}")
        wrong = headers.differences(symbol, types.get(name, tables[name]))
        if wrong:
            found.append(f"{symbol} {wrong}")
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def cuda() -> Headers:
    folder = folder_of("cuda.h", ("nvidia.cuda_runtime", "nvidia.cu13"),
                       roots(("CUDA_PATH", "CUDA_HOME"), "/usr/local/cuda/include", "/usr/include"))
    numbers = [name for _, name, _ in NUMBERS.values()]
    numbers += [name for _, name in CUDA_NUMBERS.values()]
    numbers += [f"CUDA_ERROR_{name}" for name in CUDA_LOST]
    numbers += [each for _, name, places in STRUCTS for each in expressions_of(name, places)]
    numbers += ["CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_STUB_LIBRARY"]
    return Headers("#include <cuda.h>", folder, (), symbols_of(CUDA), numbers)


def test_functions_of_cuda(cuda: Headers) -> None:
    """Each with the version that programs get which are compiled today."""
    check_functions(cuda, CUDA.symbols, TABLES, CUDA.types)


def test_numbers_of_cuda(cuda: Headers) -> None:
    for ours, name in [*((a, b) for a, b, _ in NUMBERS.values()), *CUDA_NUMBERS.values()]:
        assert ours == cuda.number[name], name
    assert {cuda.number[f"CUDA_ERROR_{name}"] for name in CUDA_LOST} == CUDA.lost
    assert {cuda.number[f"CUDA_ERROR_{name}"] for name in ("NO_DEVICE", "STUB_LIBRARY")} == (
        CUDA.no_device)


@pytest.mark.parametrize(("ours", "name", "places"), STRUCTS, ids=[name for _, name, _ in STRUCTS])
def test_structs_of_cuda(cuda: Headers, ours: type[ctypes.Structure], name: str,
                         places: Mapping[str, str]) -> None:
    assert set(places) == {field[0] for field in ours._fields_}
    assert ctypes.sizeof(ours) == cuda.number[f"sizeof({name})"]
    for mine, theirs in places.items():
        assert getattr(ours, mine).offset == cuda.number[f"offsetof({name}, {theirs})"], mine


def test_functions_of_nvrtc() -> None:
    folder = folder_of("nvrtc.h", ("nvidia.cuda_nvrtc", "nvidia.cu13"),
                       roots(("CUDA_PATH", "CUDA_HOME"), "/usr/local/cuda/include", "/usr/include"))
    headers = Headers("#include <nvrtc.h>", folder, (), CUDA.compiler_symbols.values(), ())
    check_functions(headers, CUDA.compiler_symbols, COMPILER_TABLES, {})


@pytest.fixture(scope="module")
def hip() -> Headers:
    system = str(Path("/", "opt", "rocm", "include"))  # where ROCm's packages put it
    folder = folder_of("hip/hip_runtime_api.h", (), roots(("ROCM_PATH", "HIP_PATH"), system,
                                                          "/usr/include"))
    numbers = [name for _, _, name in NUMBERS.values()] + [f"hipError{name}" for name in HIP_LOST]
    numbers += ["hipErrorNoDevice", "hipErrorInvalidDevice", "sizeof(hipDeviceProp_t)"]
    before = "#include <hip/hip_runtime_api.h>\n#include <hip/hiprtc.h>"
    return Headers(before, folder, HIP_OPTIONS,
                   [*symbols_of(HIP), *HIP.compiler_symbols.values(), HIP.error_name], numbers)


HIP_OPTIONS = ("-D__HIP_PLATFORM_AMD__", "-D__HIP_PLATFORM_HCC__",
               "-D__HIP_DISABLE_CPP_FUNCTIONS__")
"""Functions, and not the templates around them."""


def test_functions_of_hip(hip: Headers) -> None:
    check_functions(hip, HIP.symbols, TABLES, HIP.types)
    check_functions(hip, HIP.compiler_symbols, COMPILER_TABLES, {})


def test_numbers_of_hip(hip: Headers) -> None:
    for ours, _, name in NUMBERS.values():
        assert ours == hip.number[name], name
    assert {hip.number[f"hipError{name}"] for name in HIP_LOST} <= HIP.lost
    assert {hip.number["hipErrorNoDevice"], hip.number["hipErrorInvalidDevice"]} == HIP.no_device
    assert hip.number["sizeof(hipDeviceProp_t)"] < PROPERTIES_BYTES


def test_a_deviation_is_noticed(tmp_path: Path) -> None:
    """A wrong type, a wrong number of arguments, and the version of a function."""
    (tmp_path / "small.h").write_text(
        "#define get get_v2\nextern \"C\" int get_v2(unsigned long long *p, unsigned n);\n"
        "#undef get\nextern \"C\" int get(unsigned *p, unsigned n);\n#define get get_v2\n")
    headers = Headers('#include "small.h"\n', folder_of("small.h", (), [tmp_path]), (),
                      ["get_v2"], ["sizeof(long long)"])
    addresses, number = ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint
    assert headers.function["get_v2"][0] == "get_v2" and headers.number["sizeof(long long)"] == 8
    assert headers.differences("get_v2", (addresses, number)) == ""
    for types, why in (((ctypes.POINTER(number), number), "points to 8 bytes"),
                       ((addresses, ctypes.c_uint64), "has 4 bytes"), ((addresses,), "takes 2"),
                       ((addresses, number, number), "takes 2")):
        assert why in headers.differences("get_v2", types)
