"""The backend over a vendor's driver: devices, memory and programs."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.binaries import Binaries, folder_of_binaries
from unladen.backends._gpu.cuda_like import buffers
from unladen.backends._gpu.cuda_like import collective as collectives
from unladen.backends._gpu.cuda_like import found as finding
from unladen.backends._gpu.cuda_like.buffers import of_gpu
from unladen.backends._gpu.cuda_like.collective import CardGroup
from unladen.backends._gpu.cuda_like.context import Context
from unladen.backends._gpu.cuda_like.device import Gpu
from unladen.backends._gpu.cuda_like.driver import driver_of
from unladen.backends._gpu.cuda_like.program import CudaProgram
from unladen.backends._gpu.cuda_like.vendor import Vendor
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.opened import Forgone, OpeningBackend
from unladen.backends._gpu.target import Bytes, Family
from unladen.backends.base import (
    Buffer,
    Collective,
    Device,
    Make,
    Mark,
    Program,
    Segment,
    Use,
)


class CudaLikeBackend(OpeningBackend[Gpu]):
    """The devices of ``vendor``."""

    family: Family = c_texts

    def __init__(self, vendor: Vendor) -> None:
        super().__init__()
        self.vendor, self.name = vendor, vendor.backend
        self._contexts: dict[int, Context] = {}
        self._open_lock = threading.Lock()
        self._groups: weakref.WeakValueDictionary[tuple[str, ...], CardGroup] = (
            weakref.WeakValueDictionary())
        self._group_lock = threading.Lock()

    def devices(self) -> Sequence[Device]:
        return [finding.device_of(self.vendor, each, f"{self.name}:{i}")
                for i, each in enumerate(finding.usable(self.vendor))]

    def why_none(self) -> str:
        return finding.why_none(self.vendor)

    def check_process(self) -> None:
        driver = driver_of(self.vendor)
        if driver is not None:
            driver.check_process()

    def make(self, name: str, number: int, forgone: Forgone) -> Gpu:
        found = finding.found_of(self.vendor, number)
        driver = driver_of(self.vendor)
        assert driver is not None
        with self._open_lock:
            context, n_lost = self._contexts.get(found.number), 0
            if context is not None and context.is_lost:
                n_lost = context.n_lost + 1
                self._reset(context)
                context = None
            if context is None:
                context = self._contexts[found.number] = Context(driver, found, n_lost)
        return Gpu(name, context, forgone, Binaries(folder_of_binaries()))

    def _reset(self, context: Context) -> None:
        """Reset a lost context. What other devices on the card call now ends before that, and they
        call nothing afterwards."""
        with contextlib.ExitStack() as stack:
            for name in sorted(self._gpus):
                if self._gpus[name].context is context:
                    stack.enter_context(self._gpus[name].lock)
            context.reset()

    def close(self, device: Device) -> None:
        gpu = self._gpus.get(device.name)
        super().close(device)
        if gpu is None or any(x.context is gpu.context for x in self._gpus.values()):
            return
        # One that is lost stays here, so that it is reset before the card is opened again.
        number, context = gpu.context.found.number, gpu.context
        if self._contexts.get(number) is context and not context.is_lost:
            del self._contexts[number]

    def free_bytes(self, device: Device) -> int:
        return self.gpu(device.name).context.free_bytes()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        return buffers.alloc(self.gpu(device.name), nbytes, use, row_bytes)

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        buffers.discard(of_gpu(buffer))

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        buffers.write(of_gpu(dst), src, offset)

    def write_made(self, dst: Buffer, nbytes: int, make: Make, offset: int = 0, *, unit: int = 1
                   ) -> None:
        buffers.write_made(of_gpu(dst), nbytes, make, offset, unit)

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

    def libraries(self) -> Mapping[str, str]:
        about = self.vendor.collectives
        if about is None or len(finding.usable(self.vendor)) < 2:
            return {}
        return {about.name: collectives.describe(about)}

    def adds_with(self, devices: Sequence[Device]) -> str:
        return collectives.adds_with(self.vendor, [self.gpu(d.name) for d in devices])

    def collective(self, devices: Sequence[Device]) -> Collective:
        """See the base class. Plans over the same devices share a group."""
        gpus, key = [self.gpu(d.name) for d in devices], tuple(d.name for d in devices)
        group = self._groups.get(key)
        if group is None or group.gpus != gpus:
            assert self.vendor.collectives is not None
            library = collectives.library_of(self.vendor.collectives)
            assert library is not None
            group = self._groups[key] = CardGroup(library, gpus, self._group_lock)
        return group

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return CudaProgram(gpu, segment, lower(gpu, segment))
