"""One logical device: its queue, its memory, and the kernels compiled so far."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.c_texts import Source
from unladen.backends._gpu.memory import HINT, codebook_bytes
from unladen.backends._gpu.pending import Pending
from unladen.backends._gpu.target import Bytes, Constants, Family, Range
from unladen.backends._host import free_host_bytes
from unladen.backends.sycl import driver
from unladen.backends.sycl.driver import dpctl, told
from unladen.errors import OutOfMemory, UnladenError

log = logging.getLogger("unladen")

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
        gpu.count(self.nbytes)
        with told(gpu.name):
            self.usm.memset(0)

    def part(self, offset: int, nbytes: int) -> Any:
        """A range, as dpctl takes it for copies."""
        return dpctl().memory.as_usm_memory(_Part(self.usm, offset, nbytes))

    @driver.PROCESS.frees
    def __del__(self) -> None:
        if hasattr(self, "usm"):
            self.gpu.count(-self.nbytes)


class _Part:
    """A range of memory by the protocol of SYCL's arrays."""

    def __init__(self, usm: Any, offset: int, nbytes: int) -> None:
        whole = usm.__sycl_usm_array_interface__
        self.kept = usm
        self.__sycl_usm_array_interface__ = {
            **whole, "data": (whole["data"][0] + offset, False), "shape": (nbytes,), "offset": 0}


class Work:
    """Work that the device is given. ``kept``: what must live until it is done, since freed memory
    would be missed. ``event``: dpctl's, once it has started."""

    def __init__(self, kept: Any, event: Any = None) -> None:
        self.kept, self.event = kept, event

    @property
    def is_started(self) -> bool:
        """Whether the device has it."""
        return self.event is not None

    @property
    def is_done(self) -> bool:
        """Whether it is done."""
        return (self.event is not None
                and self.event.execution_status == dpctl().event_status_type.complete)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's text and the driver's kernel of it."""

    source: Source
    kernel: Any


class Gpu:
    """A logical device; it implements :class:`~unladen.backends._gpu.queued.Queue`. All models on
    the device share it."""

    family: Family = c_texts
    launched_bytes = 0
    alignment = 16
    max_storage_buffers = 32

    def __init__(self, name: str, number: int, forgone: set[tuple[str, frozenset[str]]]) -> None:
        found = self.found = driver.found_of(number)
        self.device = driver.device_of(found, name)
        self.features = driver.chosen(found.available, found.name)
        self.forgone = forgone
        self.is_closed = False
        self.max_buffer = found.max_buffer
        self.workgroup_bytes: int = found.device.local_mem_size
        self.max_binding = min(found.max_buffer, driver.LONGEST_BINDING)
        self.used_bytes = 0
        # Reentrant, since memory may be freed at any moment.
        self._counting = threading.RLock()
        self._pending: Pending[Work] = Pending()
        self.queue = dpctl().SyclQueue(found.device, property="in_order")
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

    def count(self, nbytes: int) -> None:
        """Count bytes that were allocated; fewer than 0 if they were freed."""
        with self._counting:
            self.used_bytes += nbytes

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
        work = Work((dst, src))
        self._pending.drop_done()
        with told(self.name), self._pending.starting(work):
            work.event = self.queue.memcpy_async(dst, src, nbytes)
        return work.event

    def keep(self, event: Any, what: Any) -> None:
        """Keep ``what`` until ``event``."""
        self._pending.drop_done()
        self._pending.add(Work(what, event))

    def wait(self) -> None:
        """Wait until all started work is done."""
        with told(self.name):
            self.queue.wait()
        self._pending.drop_done()

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
                raise c_texts.not_compiled(
                    what, str(error) or "dpctl gives no reason", "the device opencl:0 has the same "
                    "kernels and shows the compiler's words") from error
            made = Compiled(source, made.get_sycl_kernel(ENTRY))
            found = self._compiled.setdefault(key, made)
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
            self._grids.setdefault(name, self.upload(codebook_bytes(name)))
        return self._grids[name]

    @driver.PROCESS.frees
    def __del__(self) -> None:
        if not hasattr(self, "queue"):
            return
        try:
            with told(self.name):
                self.queue.wait()  # it uses memory of the host until then
        except UnladenError as error:
            log.debug("%s isn't waited for: %s", self.name, error)
