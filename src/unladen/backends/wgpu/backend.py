"""The backend: devices, memory and programs on wgpu."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.opened import Forgone, OpeningBackend
from unladen.backends._gpu.target import Bytes, Family
from unladen.backends.base import (
    Buffer,
    Device,
    Program,
    Segment,
    Use,
)
from unladen.backends.wgpu import adapters, memory, source
from unladen.backends.wgpu.fetch import fetch
from unladen.backends.wgpu.gpu import Gpu, budget_of, device_of, shares_host_memory
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.program import WgpuProgram


class WgpuBackend(OpeningBackend[Gpu]):
    """The backend of the package. ``wgpu:0`` is an adapter of the fastest kind. Numbers beyond the
    last adapter are more logical devices on the same adapters."""

    name = "wgpu"
    family: Family = source

    def devices(self) -> Sequence[Device]:
        return [device_of(a, f"wgpu:{i}") for i, a in enumerate(adapters.adapters())]

    def why_none(self) -> str:
        return adapters.why_none()

    def check_process(self) -> None:
        adapters.PROCESS.check()

    def make(self, name: str, number: int, forgone: Forgone) -> Gpu:
        return Gpu(name, number, forgone)

    def free_bytes(self, device: Device) -> int:
        gpu = self.gpu(device.name)
        card = budget_of(gpu.adapter)
        if card is None:
            return gpu.free_bytes()
        if not shares_host_memory(gpu.adapter):
            return card.free_bytes
        free = gpu.free_bytes()
        return min(free, card.free_heap_bytes) if card.heap_bytes else free

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
