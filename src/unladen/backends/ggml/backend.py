"""The backend: devices, memory and programs through ggml."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.backends.base import (
    Backend,
    BackendOptions,
    Buffer,
    Device,
    Program,
    Segment,
    Use,
    device_number,
)
from unladen.backends.ggml import library, memory
from unladen.backends.ggml.driver import MOST_THREADS, Driver, described
from unladen.backends.ggml.lowering import can_lower
from unladen.backends.ggml.memory import of_ggml
from unladen.backends.ggml.program import GgmlProgram, counted, scratch_bytes
from unladen.backends.ggml.sizes import Rows, Sizes
from unladen.errors import BackendNotInitialised, InvalidArgument
from unladen.graph.graph import Node, Weight
from unladen.types import Limits

SMALL: Final = Sizes(2, 1, 0, (Rows(0, 2, 64),))
"""The step with which a device is asked whether it runs a node."""


class GgmlBackend(Backend):
    """The backend of the package. ``ggml:0`` and so on are the devices of the library, in its
    order."""

    name = "ggml"

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}
        self._opening = threading.Lock()

    def devices(self) -> Sequence[Device]:
        """The library's devices, if the user names the library. One that is merely there is loaded
        when a device is opened."""
        if not library.is_named():
            return ()
        try:
            found = library.load()
        except BackendNotInitialised:
            return ()
        return [described(found, i) for i in range(found["backend_dev_count"]())]

    def why_none(self) -> str:
        if self.devices():
            return ""
        if not library.found():
            return f"there is no libggml: {library.HINT}"
        if not library.is_named():
            return f"{library.found()} is there: ask for a device by name (--device ggml:0)"
        try:
            library.load()
        except BackendNotInitialised as error:
            return str(error)
        return f"{library.found()} has no devices"

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        for option in ("n_threads", "n_threads_batch"):
            value = getattr(options, option)
            if value is not None and not 1 <= value <= MOST_THREADS:
                raise InvalidArgument(f"{option}={value} is out of range",
                                      hint=f"1 to {MOST_THREADS} threads")
        library.PROCESS.check()
        name = f"ggml:{number}"
        with self._opening:
            driver = self._drivers.get(name)
            if driver is None:
                driver = self._drivers[name] = _opened(name, number)
        return driver.device

    def close(self, device: Device) -> None:
        self._drivers.pop(device.name, None)

    def _driver(self, device: Device) -> Driver:
        if device.name not in self._drivers:
            raise BackendNotInitialised(f"{device.name} is closed", hint="open it again")
        return self._drivers[device.name]

    def free_bytes(self, device: Device) -> int:
        return self._driver(device).free_bytes()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        driver = self._driver(device)
        return memory.alloc(driver.library, device, driver.kind, nbytes, driver.free_bytes())

    def write(self, dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0) -> None:
        memory.write(self._driver(dst.device).library, of_ggml(dst), src, offset)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> npt.NDArray[np.uint8]:
        driver = self._driver(src.device)
        driver.synchronize()
        return memory.read(driver.library, of_ggml(src), nbytes, offset)

    def supports(self, device: Device, node: Node) -> bool:
        if not can_lower(node):
            return False
        driver = self._driver(device)
        builder = counted(driver, node, SMALL)  # tensors are gone with it
        return driver.runs(builder.made)

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        return self._driver(device).format_of(node, weight)

    def scratch_bytes(self, device: Device, node: Node, limits: Limits, options: BackendOptions
                      ) -> int:
        return scratch_bytes(self._driver(device), node, limits, precise=options.precise)

    def compile(self, segment: Segment) -> Program:
        return GgmlProgram(self._driver(segment.device), segment)

    def run(self, program: Program) -> None:
        assert isinstance(program, GgmlProgram)
        program.run()

    def sync(self, device: Device) -> None:
        self._driver(device).synchronize()


def _opened(name: str, number: int) -> Driver:
    loaded = library.load()
    n = loaded["backend_dev_count"]()
    if number >= n:
        raise BackendNotInitialised(
            f"{name} is no device: this libggml has {n}",
            hint=library.HINT if not n else "use ggml:0" if n == 1 else
            f"use ggml:0 to ggml:{n - 1}")
    return Driver(loaded, number)
