"""The backend: devices, memory and programs on Metal."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.backend import GpuBackend
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.target import Bytes, Family
from unladen.backends.base import (
    BackendOptions,
    Buffer,
    Device,
    Program,
    Segment,
    Use,
    device_number,
)
from unladen.backends.metal import devices, memory
from unladen.backends.metal.device import Gpu, closed
from unladen.backends.metal.memory import of_gpu
from unladen.backends.metal.program import MetalProgram
from unladen.errors import InvalidArgument

VARIABLE = "UNLADEN_METAL_FEATURES"
"""The environment variable with the names of features to use, or "none". If it isn't set, kernels
use "subgroups": the hardware adds over the 32 threads of a SIMD group."""
FEATURES = frozenset({"subgroups"})


class MetalBackend(GpuBackend):
    """The backend of the package. Numbers beyond the last device are more logical devices on the
    same ones."""

    name = "metal"
    family: Family = c_texts

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}
        # By name of a device. Kept when it is closed, since its kernels are still wrong afterwards.
        self._forgone: dict[str, set[tuple[str, frozenset[str]]]] = {}

    def devices(self) -> Sequence[Device]:
        return [devices.device_of(d, f"metal:{i}", _features())
                for i, d in enumerate(devices.usable())]

    def why_none(self) -> str:
        return devices.why_none()

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        devices.check_process()
        name = f"metal:{number}"
        if name not in self._gpus or self._gpus[name].is_lost:
            self._gpus[name] = Gpu(name, number, _features(), self._forgone.setdefault(name, set()))
        return self._gpus[name].device

    def close(self, device: Device) -> None:
        """See the base class. Objects of Metal are released with the last reference to them."""
        gpu = self._gpus.pop(device.name, None)
        if gpu is not None:
            gpu.is_closed = True

    def gpu(self, device: str) -> Gpu:
        """The device behind the name; raises :class:`BackendNotInitialised` where it isn't open."""
        if device not in self._gpus:
            raise closed(device)
        return self._gpus[device]

    def free_bytes(self, device: Device) -> int:
        return self.gpu(device.name).free_bytes()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        return memory.alloc(self.gpu(device.name), nbytes, row_bytes)

    def wrap(self, device: Device, data: Bytes) -> Buffer | None:
        return memory.wrap(self.gpu(device.name), data)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        memory.write(of_gpu(dst), src, offset)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return memory.fetch(of_gpu(src), nbytes, offset)()

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        return memory.fetch(of_gpu(src), nbytes, offset)

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        return memory.copy(of_gpu(dst), dst_offset, of_gpu(src), src_offset, nbytes)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return MetalProgram(gpu, segment.batch, segment.limits, lower(gpu, segment))

    def run(self, program: Program) -> None:
        assert isinstance(program, MetalProgram)
        if program.gpu.is_closed:
            raise closed(program.gpu.name)
        program.run()

    def cancel(self, program: Program) -> None:
        assert isinstance(program, MetalProgram)
        program.cancelled = True

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()


def _features() -> frozenset[str]:
    """The abilities that kernels use. Raises :class:`InvalidArgument` where the environment asks
    for one that doesn't exist."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return FEATURES
    asked = frozenset(text.split(",")) - {"none", ""}
    if not asked <= FEATURES:
        raise InvalidArgument(f"{VARIABLE} asks for {', '.join(sorted(asked - FEATURES))}, which "
                              "kernels for Metal don't have",
                              hint=f"use {', '.join(sorted(FEATURES))}, or none")
    return asked
