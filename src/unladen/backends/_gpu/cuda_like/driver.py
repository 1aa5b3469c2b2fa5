"""A maker's driver through ctypes: its functions, and its errors as those of this package."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from unladen.backends._gpu import forks
from unladen.backends._gpu.absent import lacks_cards
from unladen.backends._gpu.cuda_like.vendor import (
    FUNCTIONS,
    GROWS,
    OPTIONAL,
    OUT_OF_MEMORY,
    UNAVAILABLE,
    Vendor,
)
from unladen.backends._gpu.loading import lacks, load_library
from unladen.backends._gpu.memory import HINT
from unladen.errors import BackendNotInitialised, DeviceLost, OutOfMemory, UnladenError


class Driver:
    """A driver that was loaded. ``refused``: why it shows no devices, "" if it shows some."""

    def __init__(self, vendor: Vendor, library: ctypes.CDLL) -> None:
        self.vendor, self.process = vendor, forks.Process(vendor.driver)
        self.process.begin()
        self.functions: dict[str, Callable[..., int]] = {}
        for table in (FUNCTIONS, OPTIONAL):
            for name, types in table.items():
                symbol = vendor.symbols.get(name)
                if symbol is not None and (table is FUNCTIONS or hasattr(library, symbol)):
                    function = getattr(library, symbol)
                    function.argtypes = vendor.types.get(name, types)
                    self.functions[name] = function
        self._name = getattr(library, vendor.error_name)
        if vendor.returns_name:
            self._name.argtypes, self._name.restype = (ctypes.c_int,), ctypes.c_char_p
        self.refused = self._begin()

    @property
    def grows(self) -> bool:
        """Whether memory can grow."""
        return all(name in self.functions for name in GROWS)

    def _begin(self) -> str:
        number, count = self.functions["init"](0), ctypes.c_int(0)
        if number == 0:
            number = self.functions["device_count"](ctypes.byref(count))
        if number in self.vendor.no_device or (number == 0 and not count.value):
            return "it shows no device to this process"
        return f"it doesn't start: {self.name_of(number)} ({number})" if number else ""

    def n_devices(self) -> int:
        """Devices that the driver shows."""
        count = ctypes.c_int(0)
        if self.refused or self.functions["device_count"](ctypes.byref(count)):
            return 0
        return count.value

    @property
    def version(self) -> str:
        """The newest version of the platform that the driver runs, as "12.4"; "" if it doesn't
        tell."""
        number, major = self.version_number, self.vendor.major
        return f"{number // major}.{number % major // (major // 100)}" if number else ""

    @property
    def major(self) -> int:
        """The major version of the platform, likewise; 0 if the driver doesn't tell it."""
        return self.version_number // self.vendor.major

    @property
    def version_number(self) -> int:
        """The same as the driver counts, to the last patch; 0 if it doesn't tell."""
        number = ctypes.c_int(0)
        return 0 if self.functions["driver_version"](ctypes.byref(number)) else number.value

    def call(self, device: str, name: str, *arguments: Any, requested: int = 0, free: int = 0
             ) -> None:
        """Call the function called ``name``. Raises :class:`OutOfMemory`, :class:`DeviceLost` or
        :class:`UnladenError` for ``device``."""
        number = self.functions[name](*arguments)
        if number:
            raise self.error(device, name, number, requested=requested, free=free)

    def error(self, device: str, name: str, number: int, *, requested: int = 0, free: int = 0
              ) -> UnladenError:
        """The exception for error ``number`` of the function called ``name``."""
        if number == OUT_OF_MEMORY:
            return OutOfMemory(device=device, requested=requested, free=free, hint=HINT)
        text = (f"{device}: {self.vendor.symbols[name]} failed: {self.name_of(number)} ({number})")
        if number == UNAVAILABLE:
            return BackendNotInitialised(text, hint=(
                "another process has the card for itself, as its compute mode allows: end that "
                "process, or name another device"))
        if number in self.vendor.lost:
            return DeviceLost(text, hint="load the model again; a driver update may help")
        return UnladenError(text)

    def name_of(self, number: int) -> str:
        """The driver's name of an error."""
        if self.vendor.returns_name:
            found = self._name(number)
        else:
            text = ctypes.c_char_p()
            found = None if self._name(number, ctypes.byref(text)) else text.value
        return (found or b"an unknown error").decode("utf-8", "replace")

    def check_process(self) -> None:
        """Raise :class:`BackendNotInitialised` in a forked child of the process that loaded the
        driver: there it doesn't work."""
        self.process.check()


@functools.cache
def driver_of(vendor: Vendor) -> Driver | None:
    """The vendor's driver; None where there is none."""
    library = load_library(vendor.libraries, *_wanted(vendor))
    return None if library is None else Driver(vendor, library)


def why_no_driver(vendor: Vendor) -> str:
    """Why there is none, and what to do about it."""
    lacking = lacks(vendor.libraries, *_wanted(vendor))
    if lacking:
        return f"{vendor.driver} is here, but too old: it lacks {lacking}: update it"
    missing = f"{vendor.driver} was not found ({vendor.libraries[0]})"
    return missing + (no_cards(vendor) or f": {vendor.no_driver}")


def no_cards(vendor: Vendor) -> str:
    """Says that this machine has no card of the vendor's; "" where it may have one."""
    return f", and no {vendor.maker} card is in this machine" * lacks_cards(vendor.maker)


def _wanted(vendor: Vendor) -> list[str]:
    """The functions that the driver needs."""
    return [*(vendor.symbols[name] for name in FUNCTIONS), vendor.error_name]
