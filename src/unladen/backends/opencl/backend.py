"""The backend: devices, memory and programs on OpenCL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.backend import GpuBackend
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.target import Bytes, Family
from unladen.backends.base import (
    BackendOptions,
    Buffer,
    Device,
    Mark,
    Program,
    Segment,
    Use,
    device_number,
)
from unladen.backends.opencl import copying, memory, platforms
from unladen.backends.opencl.device import Event, Gpu, closed
from unladen.backends.opencl.memory import of_gpu
from unladen.backends.opencl.program import OpenClProgram


class OpenClBackend(GpuBackend):
    """The backend of the package. ``opencl:0`` is a device of the fastest kind. Numbers beyond the
    last device are more logical devices on the same ones."""

    name = "opencl"
    family: Family = c_texts

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}
        # By name of a device. Kept when it is closed, since its kernels are still wrong afterwards.
        self._forgone: dict[str, set[tuple[str, frozenset[str]]]] = {}

    def devices(self) -> Sequence[Device]:
        return [platforms.device_of(d, f"opencl:{i}") for i, d in enumerate(platforms.usable())]

    def why_none(self) -> str:
        return platforms.why_none()

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        platforms.check_process()
        name = f"opencl:{number}"
        if name not in self._gpus or self._gpus[name].is_lost:
            self._gpus[name] = Gpu(name, number, self._forgone.setdefault(name, set()))
        return self._gpus[name].device

    def close(self, device: Device) -> None:
        """See the base class. The driver's context is freed with the last buffer or program that
        refers to it."""
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

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        memory.write(of_gpu(dst), src, offset)

    def mark(self, device: Device) -> Mark:
        return self.gpu(device.name).mark()

    def write_ahead(self, dst: Buffer, src: Bytes, offset: int = 0, *, after: Mark
                    ) -> Callable[[], None]:
        assert isinstance(after, Event), after
        return copying.write_ahead(of_gpu(dst), src, offset, after)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return memory.fetch(of_gpu(src), nbytes, offset)()

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        return memory.fetch(of_gpu(src), nbytes, offset)

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        return memory.copy(of_gpu(dst), dst_offset, of_gpu(src), src_offset, nbytes)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return OpenClProgram(gpu, segment.batch, segment.limits, lower(gpu, segment))

    def run(self, program: Program) -> None:
        assert isinstance(program, OpenClProgram)
        if program.gpu.is_closed:
            raise closed(program.gpu.name)
        program.run()

    def cancel(self, program: Program) -> None:
        assert isinstance(program, OpenClProgram)
        program.cancelled = True

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()
