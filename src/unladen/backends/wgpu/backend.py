"""The backend: devices, memory and programs on wgpu."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from unladen.backends.wgpu import adapters, memory, source
from unladen.backends.wgpu.failure import closed
from unladen.backends.wgpu.fetch import fetch
from unladen.backends.wgpu.gpu import Gpu, device_of, shares_host_memory
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.program import WgpuProgram


class WgpuBackend(GpuBackend):
    """The backend of the package. ``wgpu:0`` is an adapter of the fastest kind. Numbers beyond the
    last adapter are more logical devices on the same adapters."""

    name = "wgpu"
    family: Family = source

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}
        # By name of a device. Kept when it is closed, since its kernels are still wrong afterwards.
        self._forgone: dict[str, set[tuple[str, frozenset[str]]]] = {}

    def devices(self) -> Sequence[Device]:
        return [device_of(a, f"wgpu:{i}") for i, a in enumerate(adapters.adapters())]

    def why_none(self) -> str:
        return adapters.why_none()

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        adapters.check_process()
        name = f"wgpu:{number}"
        if name not in self._gpus or self._gpus[name].is_lost:
            self._gpus[name] = Gpu(name, number, self._forgone.setdefault(name, set()))
        return self._gpus[name].device

    def close(self, device: Device) -> None:
        """See the base class. The driver's device is freed with the last buffer or program that
        refers to it."""
        gpu = self._gpus.pop(device.name, None)
        if gpu is not None:
            gpu.is_closed = True

    def gpu(self, device: str) -> Gpu:
        """The GPU behind the name of an open device; raises :class:`BackendNotInitialised`."""
        if device not in self._gpus:
            raise closed(device)
        return self._gpus[device]

    def free_bytes(self, device: Device) -> int:
        gpu = self.gpu(device.name)
        card = None if shares_host_memory(gpu.adapter) else adapters.card_of(gpu.adapter)
        return gpu.free_bytes() if card is None else card.free_bytes

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        return memory.alloc(self.gpu(device.name), nbytes, row_bytes, use)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        memory.write(of_gpu(dst), src, offset)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return memory.read(of_gpu(src), nbytes, offset)

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        return fetch(of_gpu(src), nbytes, offset, None if staging is None else of_gpu(staging))

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        return memory.copy(of_gpu(dst), dst_offset, of_gpu(src), src_offset, nbytes)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return WgpuProgram(gpu, segment.batch, segment.limits, lower(gpu, segment))

    def run(self, program: Program) -> None:
        assert isinstance(program, WgpuProgram)
        if program.gpu.is_closed:
            raise closed(program.gpu.name)
        program.run()

    def cancel(self, program: Program) -> None:
        assert isinstance(program, WgpuProgram)
        program.cancelled = True

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()
