"""One logical device: its queue, its memory, and the kernels compiled so far."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.c_texts import Source
from unladen.backends._gpu.memory import HINT, codebook_bytes
from unladen.backends._gpu.target import Bytes, Constants, Family, Range
from unladen.backends._host import free_host_bytes
from unladen.backends.sycl import driver
from unladen.backends.sycl.driver import dpctl, told
from unladen.errors import OutOfMemory, UnladenError

PORT = c_texts.FOLDER / "ports/sycl.h"
ENTRY = "kernel_main"
"""The name of the function that a kernel's text defines."""


class Memory:
    """Memory of a device, freed with the last reference to it once no work uses it."""

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.gpu, self.nbytes = gpu, max(64, -(-nbytes // 64) * 64)
        free = gpu.free_bytes()
        if self.nbytes > min(free, gpu.max_buffer):
            raise OutOfMemory(device=gpu.name, requested=self.nbytes, free=free, hint=HINT)
        try:
            self.usm = dpctl().memory.MemoryUSMDevice(self.nbytes, alignment=64, queue=gpu.queue)
        except (MemoryError, RuntimeError) as error:
            raise OutOfMemory(device=gpu.name, requested=self.nbytes, free=free,
                              hint=HINT) from error
        gpu.used_bytes += self.nbytes
        with told(gpu.name):
            self.usm.memset(0)

    def part(self, offset: int, nbytes: int) -> Any:
        """A range, as dpctl takes it for copies."""
        return dpctl().memory.as_usm_memory(_Part(self.usm, offset, nbytes))

    def __del__(self) -> None:
        if hasattr(self, "usm"):
            self.gpu.used_bytes -= self.nbytes


class _Part:
    """A range of memory by the protocol of SYCL's arrays."""

    def __init__(self, usm: Any, offset: int, nbytes: int) -> None:
        whole = usm.__sycl_usm_array_interface__
        self.kept = usm
        self.__sycl_usm_array_interface__ = {
            **whole, "data": (whole["data"][0] + offset, False), "shape": (nbytes,), "offset": 0}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's text and the driver's kernel of it."""

    source: Source
    kernel: Any


class Gpu:
    """A logical device; it implements :class:`~unladen.backends._gpu.queued.Queue`."""

    family: Family = c_texts
    alignment = 16
    max_storage_buffers = 32

    def __init__(self, name: str, number: int, forgone: set[tuple[str, frozenset[str]]]) -> None:
        found = self.found = driver.found_of(number)
        self.device = driver.device_of(found, name)
        self.features = driver.chosen(found.available, found.name)
        self.forgone = forgone
        self.is_closed = False
        self.max_buffer = found.max_buffer
        self.max_binding = min(found.max_buffer, driver.LONGEST_BINDING)
        self.used_bytes = 0
        self.queue = dpctl().SyclQueue(found.device, property="in_order")
        # Events, each with what must live until then.
        self._pending: deque[tuple[Any, Any]] = deque()
        self._compiled: dict[tuple[str, str, tuple[tuple[str, int | bool], ...]], Compiled] = {}
        self._grids: dict[str, Range] = {}

    @property
    def name(self) -> str:
        """The device's name."""
        return self.device.name

    @property
    def is_lost(self) -> bool:
        """Whether the device no longer takes work."""
        try:
            with told(self.name):
                self.queue.submit_barrier()
        except UnladenError:
            return True
        return False

    def free_bytes(self) -> int:
        """Bytes that can be allocated now. SYCL doesn't tell, so for a device with memory of its
        own it is what this process hasn't allocated."""
        if self.found.is_software:
            return free_host_bytes()
        return max(0, self.device.memory_bytes - self.used_bytes)

    def new_memory(self, nbytes: int) -> Memory:
        """Zeroed memory; raises :class:`OutOfMemory`."""
        return Memory(self, nbytes)

    def upload(self, data: Bytes) -> Range:
        """Memory that holds ``data``; raises :class:`OutOfMemory`."""
        memory = Memory(self, data.nbytes)
        self.write(memory, 0, data)
        return Range(memory, 0, data.nbytes)

    def write(self, memory: Memory, offset: int, data: Bytes) -> None:
        """Write ``data`` after the work that was started before."""
        if data.nbytes:
            self._copy(memory.part(offset, data.nbytes), data.copy(), data.nbytes)

    def read(self, memory: Memory, offset: int, nbytes: int) -> Callable[[], Bytes]:
        """Begin to read; the function waits for the bytes."""
        found = np.empty(nbytes, np.uint8)
        if not nbytes:
            return lambda: found
        event = self._copy(found, memory.part(offset, nbytes), nbytes)

        def wait() -> Bytes:
            with told(self.name):
                event.wait()
            return found
        return wait

    def copy(self, dst: Memory, dst_offset: int, src: Memory, src_offset: int, nbytes: int) -> None:
        """Copy within the device, in order."""
        if dst is src and abs(dst_offset - src_offset) < nbytes:
            between = Memory(self, nbytes)
            self.copy(between, 0, src, src_offset, nbytes)
            self.copy(dst, dst_offset, between, 0, nbytes)
        elif nbytes:
            self._copy(dst.part(dst_offset, nbytes), src.part(src_offset, nbytes), nbytes)

    def _copy(self, dst: Any, src: Any, nbytes: int) -> Any:
        with told(self.name):
            event = self.queue.memcpy_async(dst, src, nbytes)
        self.keep(event, (dst, src))
        return event

    def keep(self, event: Any, what: Any) -> None:
        """Keep ``what`` until ``event``: freed memory would be missed."""
        done = dpctl().event_status_type.complete
        while self._pending and self._pending[0][0].execution_status == done:
            self._pending.popleft()
        self._pending.append((event, what))

    def wait(self) -> None:
        """Wait until all started work is done."""
        with told(self.name):
            self.queue.wait()
        self._pending.clear()

    def compiled(self, kernel: str, quant: str, constants: Constants) -> Compiled:
        """The kernel for weights in ``quant`` with these constants, compiled on first use. Raises
        :class:`UnladenError`."""
        key = (kernel, quant, tuple(sorted(constants.items())))
        found = self._compiled.get(key)
        if found is None:
            source = c_texts.assemble(kernel, quant, constants, PORT)
            has_dot = "int_dot" in self.features
            program = dpctl().program
            try:
                made = program.create_program_from_source(
                    self.queue, source.text,
                    driver.OPTIONS + (" -DHAS_INT_DOT" if has_dot else ""))
            except program.SyclProgramCompilationError as error:
                what = f"{self.name}: kernel {kernel} {quant}".rstrip()
                raise UnladenError(
                    f"{what} doesn't compile: {error or 'dpctl gives no reason'}",
                    hint="the device opencl:0 has the same kernels and shows the compiler's words"
                ) from error
            found = self._compiled[key] = Compiled(source, made.get_sycl_kernel(ENTRY))
        return found

    def arguments(self, source: Source, ranges: dict[str, Range | bytes]) -> list[Any]:
        """The arguments of a kernel in order, as dpctl takes them."""
        if source.grid:
            ranges = {**ranges, "grid": self._grid(source.grid)}
        found: list[Any] = []
        for binding in source.bindings:
            what = ranges[binding.name]
            if isinstance(what, bytes):
                found.append(self.upload(np.frombuffer(what, np.uint8)).buffer.usm)
            else:
                found += [what.buffer.usm, ctypes.c_uint64(what.offset)]
        return found

    def _grid(self, name: str) -> Range:
        if name not in self._grids:
            self._grids[name] = self.upload(codebook_bytes(name))
        return self._grids[name]
