"""What sets the drivers of two makers apart: names, numbers and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

_POINTERS = POINTER(c_void_p)
_NUMBERS = POINTER(c_int)
_SIZES = POINTER(c_size_t)
_ADDRESSES = POINTER(c_uint64)
FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "init": (c_uint,), "driver_version": (_NUMBERS,),
    "device_count": (_NUMBERS,), "device": (_NUMBERS, c_int),
    "device_name": (c_char_p, c_int, c_int), "device_bytes": (_SIZES, c_int),
    "capability": (_NUMBERS, _NUMBERS, c_int),
    "retain": (_POINTERS, c_int), "release": (c_int,), "reset": (c_int,),
    "set_current": (c_void_p,), "current": (_POINTERS,),
    "can_access": (_NUMBERS, c_int, c_int), "enable_access": (c_void_p, c_uint),
    "memory_info": (_SIZES, _SIZES),
    "alloc": (_ADDRESSES, c_size_t), "free": (c_uint64,),
    "alloc_host": (_POINTERS, c_size_t, c_uint), "free_host": (c_void_p,),
    "upload": (c_uint64, c_void_p, c_size_t, c_void_p),
    "download": (c_void_p, c_uint64, c_size_t, c_void_p),
    "copy": (c_uint64, c_uint64, c_size_t, c_void_p),
    "copy_peer": (c_uint64, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
    "fill": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "stream": (_POINTERS, c_uint), "destroy_stream": (c_void_p,), "sync_stream": (c_void_p,),
    "query_stream": (c_void_p,), "wait_event": (c_void_p, c_void_p, c_uint),
    "event": (_POINTERS, c_uint), "destroy_event": (c_void_p,), "query_event": (c_void_p,),
    "record_event": (c_void_p, c_void_p), "sync_event": (c_void_p,),
    "begin_capture": (c_void_p, c_int), "end_capture": (c_void_p, _POINTERS),
    "instantiate": (_POINTERS, c_void_p, c_uint64), "destroy_graph": (c_void_p,),
    "launch_graph": (c_void_p, c_void_p), "destroy_recorded": (c_void_p,),
    "load": (_POINTERS, c_char_p), "unload": (c_void_p,),
    "function": (_POINTERS, c_void_p, c_char_p),
    "launch": (c_void_p, *(c_uint,) * 7, c_void_p, _POINTERS, _POINTERS)})
"""The functions of a driver, by what this package calls them, and the types of their arguments. All
return an error's number. A context is a ``c_void_p`` here; a vendor may say otherwise."""
OPTIONAL: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "granularity": (_SIZES, c_void_p, c_int),
    "create_pages": (_ADDRESSES, c_size_t, c_void_p, c_uint64), "release_pages": (c_uint64,),
    "reserve": (_ADDRESSES, c_size_t, c_size_t, c_uint64, c_uint64),
    "unreserve": (c_uint64, c_size_t), "unmap": (c_uint64, c_size_t),
    "map": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "allow": (c_uint64, c_size_t, c_void_p, c_size_t),
    "launch_with": (c_void_p, c_void_p, _POINTERS, _POINTERS),
    "device_number": (_NUMBERS, c_int, c_int), "set_function": (c_void_p, c_int, c_int)})
"""Functions that a driver may lack: those for memory that grows, starts with attributes, and memory
of workgroups that a launch gives."""
GROWS = ("granularity", "create_pages", "release_pages", "reserve", "unreserve", "unmap", "map",
         "allow")
"""The functions that memory needs to grow."""
COMPILES: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "version": (_NUMBERS, _NUMBERS),
    "create": (_POINTERS, c_char_p, c_char_p, c_int, c_void_p, c_void_p),
    "compile": (c_void_p, c_int, POINTER(c_char_p)), "destroy": (_POINTERS,),
    "log_size": (c_void_p, _SIZES), "log": (c_void_p, c_char_p),
    "code_size": (c_void_p, _SIZES), "code": (c_void_p, c_char_p)})
"""The functions of a compiler, likewise."""
COMPILES_MORE: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "n_chips": (_NUMBERS,), "chips": (_NUMBERS,),
    "text_size": (c_void_p, _SIZES), "text": (c_void_p, c_char_p)})
"""Functions that a compiler may lack: the chips that it knows, and code that the driver translates
for chips that it doesn't."""

COLLECTIVES: Mapping[str, tuple[str, tuple[Any, ...]]] = MappingProxyType({
    "version": ("ncclGetVersion", (_NUMBERS,)),
    "connect": ("ncclCommInitAll", (_POINTERS, c_int, _NUMBERS)),
    "begin": ("ncclGroupStart", ()), "end": ("ncclGroupEnd", ()),
    "all_reduce": ("ncclAllReduce",
                   (c_uint64, c_uint64, c_size_t, c_int, c_int, c_void_p, c_void_p)),
    "failure": ("ncclCommGetAsyncError", (c_void_p, _NUMBERS)),
    "abort": ("ncclCommAbort", (c_void_p,)), "destroy": ("ncclCommDestroy", (c_void_p,))})
"""The functions of a library for values over several cards, each with its name in the library, the
same in AMD's as in NVIDIA's. All return an error's number. An address is a ``c_uint64`` here."""


@dataclass(frozen=True, eq=False)
class Collectives:
    """A maker's library for values over several cards.

    * ``name``: as people call it.
    * ``libraries``: its files, and ``find``: those in packages, which come first.
    * ``no_library``: what to do about a missing one.
    * ``any_order``: the first chip, by its number, on which a sum over more than two cards may be
      added in another order in every run, unless ``fixed_order`` is in the environment: a variable
      and its value. 0: there is none.
    """

    name: str
    libraries: tuple[str, ...]
    find: Callable[[], list[str]]
    no_library: str
    any_order: int = 0
    fixed_order: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Chip:
    """The chip of a device.

    * ``name``: the compiler's name of it, for example "sm_90".
    * ``number``: its capability as NVIDIA counts, 90 for 9.0; 0 for other makers.
    * ``abilities``: what kernels may use of it.
    """

    name: str
    number: int
    abilities: frozenset[str]


@dataclass(frozen=True, eq=False)
class Vendor:
    """A maker's driver.

    * ``backend``: the backend's name.
    * ``maker``, ``driver``, ``platform``, ``compiler``: as people call them.
    * ``major``: what the driver adds to its number for each major version of the platform.
    * ``libraries``, ``compilers``: the files of the driver and of the compiler. ``find_compiler``:
      those of the compiler in packages, which come first.
    * ``name_for``: the name of a chip for the compiler of a major version. ``compiled_for``: the
      chip with what code for a target can use of it.
    * ``newer_compiler``: what to do where the compiler's major version is newer than the driver's,
      ``{major}``, which then takes none of its code ("": it may be newer).
    * ``symbols``, ``compiler_symbols``: names of the functions of this module's tables.
    * ``types``: arguments that differ from these tables.
    * ``may_abort``: the compiler may end the process. ``compiler_is_of_driver``: it comes with the
      driver, and only the driver's version tells it from others.
    * ``n_compiled_at_once``: the most kernels that threads compile at the same time.
    * ``contexts_are_numbers``: a context is the device's number.
    * ``error_name``: the function that names an error; ``returns_name``: whether it returns it.
    * ``port``: the port of the C family.
    * ``chip_of``: the chip of a device, by the driver, its number and its capability.
    * ``abilities``: all that a chip may have, in the order in which they are listed.
    * ``options``: of the compiler, for a chip's name.
    * ``no_driver``, ``no_cards``, ``no_compiler``: what to do where these are missing.
    * ``no_device``: error numbers by which the driver says that it sees no device.
    * ``lost``: errors after which a device takes no more work.
    * ``collectives``: the library for values over several cards; None: there is none.
    * ``features_variable``, ``plain_variable``: names of environment variables, for abilities and
      for memory that doesn't grow ("": it never does).
    """

    backend: str
    maker: str
    driver: str
    platform: str
    major: int
    compiler: str
    libraries: tuple[str, ...]
    compilers: tuple[str, ...]
    find_compiler: Callable[[], list[str]]
    symbols: Mapping[str, str]
    compiler_symbols: Mapping[str, str]
    error_name: str
    port: Path
    chip_of: Callable[[Any, int, tuple[int, int]], Chip | str]
    abilities: tuple[str, ...]
    options: Callable[[str], tuple[str, ...]]
    name_for: Callable[[Chip, int], str]
    compiled_for: Callable[[Chip, str], Chip]
    no_driver: str
    no_cards: str
    no_compiler: str
    no_device: frozenset[int]
    lost: frozenset[int]
    features_variable: str
    plain_variable: str = ""
    types: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    may_abort: bool = False
    compiler_is_of_driver: bool = False
    newer_compiler: str = ""
    n_compiled_at_once: int = 1
    contexts_are_numbers: bool = False
    returns_name: bool = False
    collectives: Collectives | None = None


MOST_LAUNCHED, LAUNCHED = 97, 8
"""The number of a device's attribute, how many bytes of shared memory a workgroup may have at most
(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN of cuda.h), and of that of a function, how
many of them its launches may give it (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)."""
OUT_OF_MEMORY, UNAVAILABLE, NOT_READY, NOT_SUPPORTED = 2, 46, 600, 801
NO_PEERS, ALREADY_ALLOWED, TOO_MANY_PEERS = 217, 704, 711
"""Numbers of errors that all drivers of this kind share."""
LOST = frozenset({4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721,
                  999})
"""Errors after which a device takes no more work, likewise."""
