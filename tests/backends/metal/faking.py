"""The fake Objective-C runtime of fake.cc, whose kernels run on the emulator."""

from __future__ import annotations

import ctypes
import gc
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_bool, c_char_p, c_int64, c_long, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from backends._gpu.watching import elsewhere
from backends.metal import language
from emulator import build
from unladen.backends.metal import devices, objc

HERE = Path(__file__).parent
GIB = 1 << 30


class Fake:
    """The runtime. ``kernels``: the libraries that were compiled."""

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            pytest.skip("the fake's objc_msgSend is written for x86-64")
        self.path = str(build.library((HERE / "fake.cc").read_text(), build.HERE, "-O1"))
        self.library = ctypes.CDLL(self.path)
        self.kernels: list[Any] = []
        for name, types_of in {"says": (None, c_char_p), "fail": (None, c_int64),
                               "interrupt": (None, c_char_p, c_uint64),
                               "machine": (None, c_uint64, c_bool, c_bool, c_uint64),
                               "log": (c_char_p,), "forget": (None,), "dispatches": (c_uint64,),
                               "barriers": (c_uint64,), "live": (c_long, c_char_p),
                               "types": (c_char_p, c_char_p)}.items():
            function = getattr(self.library, f"fake_{name}")
            function.restype, function.argtypes = types_of[0], types_of[1:]
        self._compile = ctypes.CFUNCTYPE(c_void_p, c_char_p)(self._compiled)
        self.library.fake_begin(
            self._compile, ctypes.cast(build.runtime().run_grid, c_void_p))

    def _compiled(self, text: bytes) -> int | None:
        try:
            made = ctypes.CDLL(str(language.compiled(text.decode())))
        except AssertionError as error:
            self.library.fake_says(str(error).encode())
            return None
        self.kernels.append(made)
        return ctypes.cast(made.kernel_entry, c_void_p).value

    def machine(self, n_devices: int = 1, *, unified: bool = True, family: bool = True,
                most_bytes: int = 8 * GIB) -> None:
        """Be another machine."""
        self.library.fake_machine(n_devices, unified, family, most_bytes)
        devices.found.cache_clear()

    def fail(self, code: int) -> None:
        """From now on command buffers fail with ``code``; 0: they don't."""
        self.library.fake_fail(code)

    def interrupt(self, message: str, n: int) -> None:
        """The ``n``-th of these messages from now on comes with the signal of Ctrl-C."""
        self.library.fake_interrupt(message.encode(), n)

    def meanwhile(self, message: str, work: Callable[[], object]) -> None:
        """Do ``work`` in another thread when the next of these messages comes, before the message
        does something."""
        self._work = ctypes.CFUNCTYPE(None)(lambda: elsewhere(work))
        self.library.fake_meanwhile(message.encode(), self._work)

    def log(self) -> list[str]:
        """The messages since the last :meth:`forget`, each with its class, and faults."""
        found: bytes = self.library.fake_log()
        return found.decode().splitlines()

    def faults(self) -> list[str]:
        """What was wrong since the last :meth:`forget`."""
        return [line for line in self.log() if line.startswith("FAULT")]

    def live(self, kind: str) -> int:
        """How many objects of a class there are."""
        gc.collect()
        return int(self.library.fake_live(kind.encode()))


@contextmanager
def faked() -> Iterator[Fake]:
    """This machine has Metal meanwhile."""
    language.compiler()
    fake = Fake()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objc, "OBJC", (fake.path,))
        patch.setattr(objc, "METAL", (fake.path,))
        gc.collect()
        objc.forget()
        devices.found.cache_clear()
        fake.machine()
        fake.library.fake_forget()
        yield fake
        fake.fail(0)
        fake.interrupt("", 0)
        fake.meanwhile("", gc.collect)
        faults = fake.faults()
        gc.collect()
        devices.found.cache_clear()
        gc.collect()
    objc.forget()
    assert not faults, faults
