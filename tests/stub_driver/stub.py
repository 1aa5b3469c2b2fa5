"""The driver of ``driver.cc`` under a backend: what it counts, what it is told, what it found."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator import build
from unladen.backends import backend_of
from unladen.backends._gpu.cuda_like import found as finding
from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
from unladen.backends._gpu.cuda_like.vendor import Vendor
from unladen.backends.cuda.driver import CUDA
from unladen.backends.hip.driver import HIP

HERE = Path(__file__).parent
VENDORS = {"cuda": CUDA, "hip": HIP}
COMPILES = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
PARAMETER = re.compile(r"(IN|OUT|STRUCT)_PARAM\(\d+, (\w+), \w+\)")
LAUNCHED = re.compile(r"define KERNEL_BEGIN .*LAUNCHED_BEGIN\((\w+), \w+, (\(.*?\))\)")
KERNEL = re.compile(r"^KERNEL\((\w+)\)", re.M)
SPEED = "-O1"


class Stub:
    """The loaded library."""

    def __init__(self) -> None:
        self.path = str(build.library((HERE / "driver.cc").read_text(), HERE, "-O2"))
        self.library = ctypes.CDLL(self.path)
        self.library.stub_fault.restype = ctypes.c_char_p
        for name in ("stub_count", "stub_used", "stub_n_blocks"):
            getattr(self.library, name).restype = ctypes.c_uint64
        self._compile = COMPILES(self._compiled)
        self._kept: list[Any] = []

    def reset(self, *, runs: bool) -> None:
        """Forget counts, failures and settings. ``runs``: kernels are compiled, and run under the
        emulator; otherwise nothing is computed."""
        self.library.stub_reset()
        runtime = build.runtime()
        self.library.stub_runner(self._compile if runs else COMPILES(0),
                                 ctypes.cast(runtime.run_grid, ctypes.c_void_p),
                                 ctypes.cast(runtime.fault_text, ctypes.c_void_p),
                                 ctypes.cast(runtime.watch, ctypes.c_void_p))
        self.set("runs", int(runs))

    def set(self, name: str, value: int) -> None:
        self.library.stub_set(name.encode(), ctypes.c_uint64(value))

    def count(self, name: str) -> int:
        return int(self.library.stub_count(name.encode()))

    def forget(self) -> None:
        """Begin to count again."""
        self.library.stub_forget()

    def fail(self, name: str, error: int, after: int = 0) -> None:
        """Let the next call of a function fail, or the one ``after`` so many others."""
        self.library.stub_fail(name.encode(), ctypes.c_long(after), error)

    def lose(self, device: int) -> None:
        """Let a card fail now, with the work that it was given."""
        self.library.stub_lose(device)

    def check(self) -> None:
        """Let all work end that still waits; no call was wrong, and nothing came in no order."""
        self.library.stub_finish()
        assert not self.faults(), "\n".join(self.faults())

    def faults(self) -> list[str]:
        return [self.library.stub_fault(i).decode() for i in range(self.library.stub_n_faults())]

    def used_bytes(self, device: int = 0) -> int:
        return int(self.library.stub_used(device))

    def current(self) -> int:
        """The device whose context the calls of this thread are in; -1: none."""
        return int(self.library.stub_current())

    def n_blocks(self) -> int:
        return int(self.library.stub_n_blocks())

    def _compiled(self, text: bytes, options: bytes) -> int:
        """The address of the path of a library for the emulator, or what g++ says."""
        words = text.decode()
        line = next(line for line in words.splitlines() if "KERNEL_PARAMS " in line)
        kinds = PARAMETER.findall(line)
        sizes = ", ".join({"IN": "0", "OUT": "~0u", "STRUCT": f"sizeof({of})"}[kind]
                          for kind, of in kinds)
        launched = LAUNCHED.search(words)
        n_bytes = f"sizeof({launched[1]}) * {launched[2]}" if launched else "0"
        name = KERNEL.findall(words)[-1]
        words += (f'extern "C" {{\nu32 n_arguments = {len(kinds)};\n'
                  f'u32 launched_bytes = {n_bytes}, group_threads = WG;\n'
                  f'char kernel_name[] = "{name}";\n'
                  f'u32 argument_bytes[] = {{{sizes}}};\n}}\n')
        try:
            made = str(build.library(words, build.HERE, SPEED))
        except AssertionError as error:
            made = f"error: {error}"
        self._kept.append(ctypes.create_string_buffer(made.encode()))
        return ctypes.addressof(self._kept[-1])


_STUB: list[Stub] = []


def stub() -> Stub:
    """The one stub of the process."""
    if not _STUB:
        _STUB.append(Stub())
    return _STUB[0]


def vendor(name: str, *, adds: bool = False, **changed: Any) -> Vendor:
    """The vendor ``name`` with the stub as its driver and compiler and, where it ``adds``, as its
    library for sums over cards."""
    path = stub().path
    about = VENDORS[name].collectives
    assert about is not None
    base = {"libraries": (path,), "compilers": (path,), "find_compiler": list, "port": build.PORT,
            "may_abort": False, "collectives": dataclasses.replace(
                about, libraries=(path if adds else "libnone.so",), find=list)}
    return dataclasses.replace(VENDORS[name], **{**base, **changed})


def backend(name: str, **changed: Any) -> CudaLikeBackend:
    """A backend of its own over the stub."""
    return CudaLikeBackend(vendor(name, **changed))


@contextmanager
def installed(name: str, *, runs: bool = True, adds: bool = False, n_cards: int = 1
              ) -> Iterator[Stub]:
    """The package's backend ``name`` runs on the stub. Faults fail the test."""
    driver = stub()
    gc.collect()  # what an earlier test left frees its events and memory in that test's driver
    driver.reset(runs=runs)
    driver.set("devices", n_cards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNLADEN_KERNEL_CACHE", "")
        patch.setenv("UNLADEN_PROBE", str(int(runs)))  # what isn't computed would be found wrong
        own = backend_of(name)
        assert isinstance(own, CudaLikeBackend)
        patch.setattr(own, "vendor", vendor(name, adds=adds))
        patch.setattr(own, "_gpus", {})
        patch.setattr(own, "_contexts", {})
        assert finding.usable(own.vendor), finding.why_none(own.vendor)
        yield driver
    driver.check()


@contextmanager
def at_rest() -> Iterator[Stub]:
    """The stub, which runs no kernels; it has forgotten everything before and afterwards."""
    found = stub()
    found.reset(runs=False)
    yield found
    found.reset(runs=False)
