"""One logical device: its queue, its memory, and the kernels compiled so far."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.c_texts import Source
from unladen.backends._gpu.memory import HINT, codebook_bytes
from unladen.backends._gpu.pending import Pending
from unladen.backends._gpu.target import Bytes, Constants, Family, Range
from unladen.backends._host import free_host_bytes
from unladen.backends.metal import devices, objc
from unladen.backends.metal.objc import Object, text
from unladen.errors import DeviceLost, OutOfMemory, UnladenError, UnsupportedOp

PORT = c_texts.FOLDER / "ports/metal.h"
ENTRY = "kernel_main"
"""The name of the function that a kernel's text defines."""
LANGUAGE = (2 << 16) + 4
"""Version 2.4 of the language, of macOS 12; MTLLanguageVersion2_4."""
SHARED = 0
"""MTLResourceStorageModeShared: memory that the processor and the device use at one address."""
COMMITTED, COMPLETED, FAILED = 2, 4, 5
"""MTLCommandBufferStatusCommitted, MTLCommandBufferStatusCompleted and
MTLCommandBufferStatusError."""
NO_MEMORY = 8
"""MTLCommandBufferErrorOutOfMemory."""
LOST = {1: "an internal error", 2: "it took too long", 3: "a page fault", 4: "access was revoked",
        7: "it isn't permitted", 11: "the device was removed"}
"""Codes of MTLCommandBufferError after which a device takes no more work."""
PAGE = mmap.PAGESIZE
"""Memory of the host that a buffer takes without a copy begins and ends at a multiple of this."""


class Memory:
    """A buffer, freed with the last reference to it. ``base``: where it begins in the buffer of
    Metal. ``kept``: memory of the host that it lies in."""

    @objc.pool()
    def __init__(self, gpu: Gpu, nbytes: int, over: Bytes | None = None) -> None:
        self.gpu, self.nbytes, self.base, self.kept = gpu, nbytes, 0, over
        device = gpu.found.object
        if over is None:
            made = device.send("newBufferWithLength:options:", max(16, -(-nbytes // 16) * 16),
                               SHARED)
        else:
            start = over.ctypes.data // PAGE * PAGE
            self.base = over.ctypes.data - start
            made = device.send("newBufferWithBytesNoCopy:length:options:deallocator:", start,
                               -(-(self.base + nbytes) // PAGE) * PAGE, SHARED, None)
        if not made:
            raise OutOfMemory(device=gpu.name, requested=nbytes, free=gpu.free_bytes(), hint=HINT)
        self.object = Object(made)
        self.handle = self.object.address
        self.address: int = self.object.send("contents") + self.base

    def bytes(self, offset: int, nbytes: int) -> Bytes:
        """A view of the bytes."""
        view = (ctypes.c_uint8 * nbytes).from_address(self.address + offset)
        return np.ctypeslib.as_array(view)


@dataclass(slots=True, eq=False)
class Commands:
    """Commands for the device, and what they need until they are done."""

    device: str
    object: Object
    kept: list[Any] = field(default_factory=list)

    @property
    def is_started(self) -> bool:
        """Whether the device has them."""
        return bool(self.object.send("status") >= COMMITTED)

    @property
    def is_done(self) -> bool:
        """Whether they are done, or have failed."""
        return bool(self.object.send("status") >= COMPLETED)

    def error(self) -> UnladenError | OutOfMemory | None:
        """The error with which they ended; None if they didn't fail."""
        if self.object.send("status") != FAILED:
            return None
        with objc.pool():
            error = self.object.send("error")
            code = objc.send(error, "code") if error else 0
            said = text(objc.send(error, "localizedDescription")) if error else "no reason given"
        if code == NO_MEMORY:
            return OutOfMemory(device=self.device, requested=0, free=0, hint=HINT)
        if code in LOST:
            return DeviceLost(f"{self.device}: {LOST[code]}: {said}",
                              hint="load the model again")
        return UnladenError(f"{self.device}: a step failed: {said} ({code})")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's text and its pipeline."""

    source: Source
    pipeline: Object


class Gpu:
    """A logical device; it implements :class:`~unladen.backends._gpu.target.Target`. All models on
    the device share it.

    Each function has an autorelease pool around what it sends: threads of Python have none, and
    keep till their end what Metal autoreleases without one."""

    family: Family = c_texts
    launched_bytes = 0
    alignment = 16
    max_storage_buffers = 28
    """31 arguments in all, some of which are structs."""

    def __init__(self, name: str, number: int, features: frozenset[str],
                 forgone: set[tuple[str, frozenset[str]]]) -> None:
        found = self.found = devices.found_of(number)
        self.device = devices.device_of(found, name, features)
        self.features, self.forgone = features, forgone
        self.is_closed = False
        self.error: UnladenError | OutOfMemory | None = None
        self.max_buffer = found.max_buffer
        self.max_binding = min(found.max_buffer, devices.LONGEST_BINDING)
        with objc.pool():
            self.queue = Object(found.object.send("newCommandQueue"))
            self.workgroup_bytes: int = found.object.send("maxThreadgroupMemoryLength")
        # Commands are committed and kept in the same order.
        self._committing = threading.RLock()
        self._pending: Pending[Commands] = Pending()
        self._compiled: dict[tuple[str, str, tuple[tuple[str, int | bool], ...]], Compiled] = {}
        self._grids: dict[str, Range] = {}

    @property
    def is_lost(self) -> bool:
        """Whether some work has failed, so that what is in the device's memory is unknown."""
        return self.error is not None

    @property
    def name(self) -> str:
        """The device's name."""
        return self.device.name

    @objc.pool()
    def free_bytes(self) -> int:
        """Bytes that can be allocated now without slowing the system down."""
        left = self.found.memory_bytes - devices.allocated_bytes(self.found)
        return max(0, min(left, free_host_bytes()))

    def new_memory(self, nbytes: int) -> Memory:
        """A new buffer, which Metal fills with zeros; raises :class:`OutOfMemory`."""
        return Memory(self, nbytes)

    def upload(self, data: Bytes) -> Range:
        """A new buffer that holds ``data``; raises :class:`OutOfMemory`."""
        memory = Memory(self, data.nbytes)
        memory.bytes(0, data.nbytes)[:] = data
        return Range(memory, 0, data.nbytes)

    def write(self, memory: Memory, offset: int, data: Bytes) -> None:
        """Write ``data`` after the work that was started before."""
        if self.is_idle():
            memory.bytes(offset, data.nbytes)[:] = data
        elif data.nbytes:
            between = self.upload(data).buffer
            self.copy(memory, offset, between, 0, data.nbytes)

    def read(self, memory: Memory, offset: int, nbytes: int) -> Callable[[], Bytes]:
        """Begin to read; the function waits for the bytes."""
        if self.is_idle() or not nbytes:
            found = memory.bytes(offset, nbytes).copy()
            return lambda: found
        between = Memory(self, nbytes)
        with self.commands(between, memory) as done:
            copy_within(done, between, 0, memory, offset, nbytes)

        def wait() -> Bytes:
            self.wait_for(done)
            return between.bytes(0, nbytes).copy()
        return wait

    def copy(self, dst: Memory, dst_offset: int, src: Memory, src_offset: int, nbytes: int) -> None:
        """Copy within the device, in order."""
        if dst.handle == src.handle and abs(dst_offset - src_offset) < nbytes:
            between = Memory(self, nbytes)
            self.copy(between, 0, src, src_offset, nbytes)
            self.copy(dst, dst_offset, between, 0, nbytes)
            return
        with self.commands(dst, src) as commands:
            copy_within(commands, dst, dst_offset, src, src_offset, nbytes)

    @contextmanager
    def commands(self, *kept: Any) -> Iterator[Commands]:
        """Commands that the device gets at the end of this, if no exception ends it."""
        with objc.pool():
            commands = Commands(self.name, objc.retained(self.queue.send("commandBuffer")),
                                list(kept))
            yield commands
            with self._committing, self._pending.starting(commands):
                commands.object.send("commit")

    @objc.pool()
    def is_idle(self) -> bool:
        """Whether the device has done all that it was given. Raises what it failed with."""
        self._pending.drop_done(self._note)
        if self.error is not None:
            raise self.error
        return self._pending.oldest() is None

    def _note(self, done: Commands) -> None:
        self.error = self.error or done.error()

    @objc.pool()
    def wait_for(self, commands: Commands) -> None:
        """Wait until these commands are done, and all that were given before. Raises
        :class:`DeviceLost` and the like."""
        commands.object.send("waitUntilCompleted")
        self.is_idle()

    def wait(self) -> None:
        """Wait until all started work is done."""
        with self._committing:
            newest = self._pending.newest()
        if newest is not None:
            self.wait_for(newest)
        self.is_idle()

    @objc.pool()
    def compiled(self, kernel: str, quant: str, constants: Constants) -> Compiled:
        """The kernel for weights in ``quant`` with these constants, compiled on first use. Raises
        :class:`UnladenError` with the compiler's message."""
        key = (kernel, quant, tuple(sorted(constants.items())))
        found = self._compiled.get(key)
        if found is None:
            source = c_texts.assemble(kernel, quant, constants, PORT)
            pipeline = self._build(source.text, f"{self.name}: kernel {kernel} {quant}".rstrip())
            if (n := pipeline.send("maxTotalThreadsPerThreadgroup")) < constants["WG"]:
                raise UnsupportedOp(
                    f"{self.name}: kernel {kernel} {quant} runs with {n} threads at most, and "
                    f"needs {constants['WG']}", node=kernel, device=self.name, hint="use wgpu:0")
            found = self._compiled.setdefault(key, Compiled(source, pipeline))
        return found

    def _build(self, source: str, what: str) -> Object:
        device, error = self.found.object, ctypes.c_void_p()
        with objc.pool():
            options = objc.new("MTLCompileOptions")
            options.send("setFastMathEnabled:", False)
            options.send("setLanguageVersion:", LANGUAGE)
            made = device.send("newLibraryWithSource:options:error:", objc.string(source),
                               options.address, ctypes.byref(error))
            if not made:
                raise _not_compiled(what, error)
            function = Object(made).send("newFunctionWithName:", objc.string(ENTRY))
            if not function:
                raise UnladenError(f"{what} has no function {ENTRY}")
            owned = Object(function)
            made = device.send("newComputePipelineStateWithFunction:error:", owned.address,
                               ctypes.byref(error))
            if not made:
                raise _not_compiled(what, error)
        return Object(made)

    def grid(self, name: str) -> Range:
        """The codebook ``name`` on the device."""
        if name not in self._grids:
            self._grids.setdefault(name, self.upload(codebook_bytes(name)))
        return self._grids[name]

    @objc.PROCESS.frees
    def __del__(self) -> None:
        # Work that goes on may use memory of the host, which is freed with what is kept for it.
        pending = getattr(self, "_pending", None)
        while pending is not None and (oldest := pending.oldest()) is not None:
            with objc.pool():
                oldest.object.send("waitUntilCompleted")
            pending.drop(oldest)


def copy_within(commands: Commands, dst: Memory, dst_offset: int, src: Memory, src_offset: int,
                nbytes: int) -> None:
    """Add a copy to ``commands``."""
    blit = commands.object.send("blitCommandEncoder")
    try:
        objc.send(blit, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", src.handle,
                  src.base + src_offset, dst.handle, dst.base + dst_offset, nbytes)
    finally:
        objc.send(blit, "endEncoding")  # Metal ends a process that frees an encoder before


def _not_compiled(what: str, error: ctypes.c_void_p) -> UnsupportedOp:
    said = text(objc.send(error.value, "localizedDescription")) if error else "no reason given"
    return c_texts.not_compiled(what, said, "an update of macOS may help")
