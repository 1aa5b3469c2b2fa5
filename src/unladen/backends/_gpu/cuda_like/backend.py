"""The backend over a vendor's driver: devices, memory and programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.backend import GpuBackend
from unladen.backends._gpu.binaries import Binaries, folder_of_binaries
from unladen.backends._gpu.cuda_like import buffers
from unladen.backends._gpu.cuda_like import found as finding
from unladen.backends._gpu.cuda_like.buffers import of_gpu
from unladen.backends._gpu.cuda_like.context import Context
from unladen.backends._gpu.cuda_like.device import Gpu, closed
from unladen.backends._gpu.cuda_like.driver import driver_of
from unladen.backends._gpu.cuda_like.program import CudaProgram
from unladen.backends._gpu.cuda_like.vendor import Vendor
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


class CudaLikeBackend(GpuBackend):
    """The devices of ``vendor``. Numbers beyond the last device are more logical devices on the
    same ones."""

    family: Family = c_texts

    def __init__(self, vendor: Vendor) -> None:
        self.vendor, self.name = vendor, vendor.backend
        self._gpus: dict[str, Gpu] = {}
        self._contexts: dict[int, Context] = {}
        # By name of a device. Kept when it is closed, since its kernels are still wrong afterwards.
        self._forgone: dict[str, set[tuple[str, frozenset[str]]]] = {}

    def devices(self) -> Sequence[Device]:
        return [finding.device_of(self.vendor, each, f"{self.name}:{i}")
                for i, each in enumerate(finding.usable(self.vendor))]

    def why_none(self) -> str:
        return finding.why_none(self.vendor)

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        found = finding.found_of(self.vendor, number)
        name = f"{self.name}:{number}"
        driver = driver_of(self.vendor)
        assert driver is not None
        driver.check_process()
        if name not in self._gpus or self._gpus[name].is_lost:
            context = self._contexts.get(found.number)
            if context is not None and context.is_lost:
                context.reset()
                context = None
            if context is None:
                context = self._contexts[found.number] = Context(driver, found)
            self._gpus[name] = Gpu(name, context, self._forgone.setdefault(name, set()),
                                   Binaries(folder_of_binaries()))
        return self._gpus[name].device

    def close(self, device: Device) -> None:
        """See the base class. What the driver made is freed with the last buffer or program that
        refers to it."""
        gpu = self._gpus.pop(device.name, None)
        if gpu is not None:
            gpu.is_closed = True
            number = gpu.context.found.number
            if all(other.context is not gpu.context for other in self._gpus.values()):
                self._contexts.pop(number, None)

    def gpu(self, device: str) -> Gpu:
        """The device behind the name; raises :class:`BackendNotInitialised` where it isn't open."""
        if device not in self._gpus:
            raise closed(device)
        return self._gpus[device]

    def free_bytes(self, device: Device) -> int:
        return self.gpu(device.name).context.free_bytes()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        return buffers.alloc(self.gpu(device.name), nbytes, use, row_bytes)

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        buffers.discard(of_gpu(buffer))

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        buffers.write(of_gpu(dst), src, offset)

    def mark(self, device: Device) -> Mark:
        return self.gpu(device.name).mark()

    def write_ahead(self, dst: Buffer, src: Bytes, offset: int = 0, *, after: Mark
                    ) -> Callable[[], None]:
        assert isinstance(after, list), after
        return buffers.write_ahead(of_gpu(dst), src, offset, after)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return buffers.fetch(of_gpu(src), nbytes, offset, None)()

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        return buffers.fetch(of_gpu(src), nbytes, offset, staging)

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        return buffers.copy(of_gpu(dst), dst_offset, of_gpu(src), src_offset, nbytes)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return CudaProgram(gpu, segment, lower(gpu, segment))

    def run(self, program: Program) -> None:
        assert isinstance(program, CudaProgram)
        if program.gpu.is_closed:
            raise closed(program.gpu.name)
        program.run()

    def cancel(self, program: Program) -> None:
        assert isinstance(program, CudaProgram)
        program.cancelled = True

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()
