"""One logical device: its streams, events and memory, and the kernels compiled so far."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_void_p
from typing import Any

from unladen.backends._gpu import c_texts, forks
from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.c_texts import Source
from unladen.backends._gpu.cuda_like import found as finding
from unladen.backends._gpu.cuda_like.compiler import compiler_of
from unladen.backends._gpu.cuda_like.context import Context
from unladen.backends._gpu.cuda_like.memory import Memory
from unladen.backends._gpu.cuda_like.staging import Pinned, Ring, copying
from unladen.backends._gpu.cuda_like.streams import Event, Stream
from unladen.backends._gpu.cuda_like.vendor import LAUNCHED
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.memory import codebook_bytes
from unladen.backends._gpu.target import Bytes, Family, Range
from unladen.backends._system import this_system
from unladen.backends.base import Make
from unladen.errors import UnladenError

Key = tuple[str, str, tuple[tuple[str, int | bool], ...]]
"""What a kernel is known by: its name, the format of its weights, and its constants."""
ENTRY = b"kernel_main"
"""The name of the function that a kernel's text defines."""


REFUSED = frozenset({200, 209, 218, 222})
"""Errors by which the driver says that a binary isn't for it: its image is invalid or for another
chip, or its PTX is invalid or too new."""


class Kernel:
    """A compiled kernel: its text's arguments, and the driver's function, whose launches may give
    what the kernel takes of shared memory."""

    def __init__(self, gpu: Gpu, source: Source, module: c_void_p) -> None:
        self.source, self.module, self.function = source, module, c_void_p()
        gpu.context.call("function", ctypes.byref(self.function), self.module, ENTRY,
                         device=gpu.name)
        if source.launched_bytes and gpu.launched_bytes:
            gpu.context.call("set_function", self.function, LAUNCHED, source.launched_bytes,
                             device=gpu.name)


class Gpu:
    """A logical device; it implements :class:`~unladen.backends._gpu.target.Target`.

    Work of the segments is in order on :attr:`compute`. Copies from and to the host are on streams
    of their own, so that they run beside it: :class:`Memory` knows which work it has to wait for.
    """

    family: Family = c_texts
    alignment = 16
    max_storage_buffers = 64
    workgroup_bytes = 48 << 10
    """What arrays of a fixed size may take."""

    def __init__(self, name: str, context: Context, forgone: set[tuple[str, frozenset[str]]],
                 kept: Binaries) -> None:
        found, vendor = context.found, context.driver.vendor
        self.context, self.kept = context, kept
        self.device = finding.device_of(vendor, found, name)
        self.features = finding.features(vendor, found.chip.abilities, found.name)
        self.forgone = forgone
        self.is_closed = False
        self.lock = threading.RLock()
        self.max_buffer = max(found.memory_bytes // 256 * 256, 1)
        self.max_binding = min(self.max_buffer, finding.LONGEST_BINDING)
        self.launched_bytes = found.launched_bytes
        self._kernels: dict[Key, Kernel] = {}
        self._grids: dict[str, Range] = {}
        self._ring: Ring | None = None
        context.enter()
        self.compute, self.uploads, self.downloads, self.ahead, self.recorded = (
            Stream(context, name) for _ in range(5))

    @property
    def name(self) -> str:
        """The device's name."""
        return self.device.name

    @property
    def is_lost(self) -> bool:
        """Whether the device no longer takes work."""
        if not self.context.is_lost:
            try:
                self.context.enter()
                self.context.poll(self.compute.handle)
            except UnladenError:
                return True
        return self.context.is_lost

    def upload(self, data: Bytes) -> Range:
        """A new buffer that holds ``data``; raises :class:`OutOfMemory`."""
        memory = Memory(self, data.nbytes)
        self.write(memory, 0, data)
        return Range(memory, 0, data.nbytes)

    def write(self, memory: Memory, offset: int, data: Bytes) -> None:
        """Upload ``data`` after the work that was started before and uses ``memory``."""
        self.write_made(memory, offset, data.nbytes, copying(data))

    def write_made(self, memory: Memory, offset: int, nbytes: int, make: Make, unit: int = 1
                   ) -> None:
        """Upload, likewise, bytes that ``make`` writes into pinned memory, in multiples of
        ``unit``."""
        if not nbytes:
            return
        with self.lock:
            self.context.enter()
            memory.reach(offset + nbytes)
            if self._ring is None:
                self._ring = Ring(self)
            memory.begin(self.uploads)
            self._ring.upload(memory.address + offset, nbytes, make, self.uploads, unit)
            memory.end(self.uploads)

    def mark(self) -> Sequence[Event]:
        """The ends of all that was started so far."""
        with self.lock:
            self.context.enter()
            return [stream.record() for stream in self.streams]

    def write_ahead(self, memory: Memory, offset: int, data: Bytes, after: Sequence[Event]
                    ) -> Callable[[], None]:
        """Upload ``data`` after the events, on a stream of its own. The returned function makes
        later work wait for the bytes."""
        with self.lock:
            self.context.enter()
            memory.reach(offset + data.nbytes)
            if self._ring is None:
                self._ring = Ring(self)
            for event in after:
                self.ahead.wait_for(event)
            self._ring.upload(memory.address + offset, data.nbytes, copying(data), self.ahead)
            arrived = self.ahead.record()

        def arrive() -> None:
            with self.lock:
                self.context.enter()
                memory.begin(self.compute)
                self.compute.wait_for(arrived)
                memory.end(self.compute)
        return arrive

    @property
    def streams(self) -> Sequence[Stream]:
        """The streams with work on memory."""
        return self.uploads, self.compute, self.downloads, self.ahead

    def read(self, memory: Memory, offset: int, nbytes: int, into: Pinned, at: int) -> None:
        """Begin to read into pinned memory; :attr:`Pinned.event` is set after it."""
        with self.lock:
            self.context.enter()
            there = min(nbytes, max(0, memory.used_bytes - offset))
            memory.begin(self.downloads)
            if there:
                self.context.call("download", into.address + at, memory.address + offset, there,
                                  self.downloads.handle, device=self.name)
            into.data[at + there:at + nbytes] = 0
            into.event = memory.end(self.downloads)

    def copy(self, dst: Memory, dst_offset: int, src: Memory, src_offset: int, nbytes: int) -> None:
        """Copy between buffers, or within one, of this device."""
        if dst is src and abs(dst_offset - src_offset) < nbytes:
            between = Memory(self, nbytes)
            self.copy(between, 0, src, src_offset, nbytes)
            self.copy(dst, dst_offset, between, 0, nbytes)
            return
        self.copy_from(dst, dst_offset, src, src_offset, nbytes)

    def copy_from(self, dst: Memory, dst_offset: int, src: Memory, src_offset: int, nbytes: int
                  ) -> None:
        """Copy to this device's ``dst`` from ``src``, which may be on another card. What has no
        memory in ``src`` gets none in ``dst``."""
        first, second = sorted((self, src.gpu), key=lambda gpu: gpu.name)
        with first.lock, second.lock:
            src.gpu.context.enter()
            self.context.enter()
            there = min(nbytes, max(0, src.used_bytes - src_offset))
            dst.clear(dst_offset + there, nbytes - there)
            if not there:
                return
            nbytes = there
            dst.reach(dst_offset + nbytes)
            stream = self.compute if src.gpu is self else self.uploads
            src.begin(stream)
            dst.begin(stream)
            to, source = dst.address + dst_offset, src.address + src_offset
            if src.gpu.context is self.context:
                self.context.call("copy", to, source, nbytes, stream.handle, device=self.name)
            else:
                self.context.reach(src.gpu.context)
                self.context.call("copy_peer", to, self.context.handle, source,
                                  src.gpu.context.handle, nbytes, stream.handle, device=self.name)
            src.end(stream)
            dst.end(stream)

    def wait(self) -> None:
        """Wait until all submitted work is done."""
        self.context.enter()
        for stream in self.streams:
            stream.wait()

    def kernels(self, dispatches: Sequence[Dispatch]) -> Sequence[Kernel]:
        """The kernels of ``dispatches``, compiled on first use: several at once where the compiler
        can do that. Raises :class:`UnladenError` with the compiler's message."""
        vendor = self.context.driver.vendor
        keys = [(d.kernel, d.quant, tuple(sorted(d.constants.items()))) for d in dispatches]
        sources = {key: c_texts.assemble(d.kernel, d.quant, d.constants, vendor.port)
                   for key, d in zip(keys, dispatches, strict=True) if key not in self._kernels}
        n_at_once = min(vendor.n_compiled_at_once, this_system().n_cores())
        pool = ThreadPoolExecutor(n_at_once, thread_name_prefix="unladen-compile")
        try:
            made = {key: pool.submit(self._binary, key, source.text)
                    for key, source in sources.items()}
            for key, source in sources.items():
                binary = made[key].result()
                with self.lock:
                    if key not in self._kernels:  # else another model was faster
                        module = self._loaded(key, source.text, binary)
                        self._kernels[key] = Kernel(self, source, module)
        finally:
            pool.shutdown(cancel_futures=True)
        return [self._kernels[key] for key in keys]

    def _binary(self, key: Key, text: str) -> bytes:
        compiler = compiler_of(self.context.driver.vendor)
        assert compiler is not None
        kernel, quant, _ = key
        return compiler.binary(self.kept, text, self.context.found.target,
                               f"{self.name}: kernel {kernel} {quant}".rstrip())

    def _loaded(self, key: Key, text: str, binary: bytes) -> c_void_p:
        """The driver's module of ``binary``, which ``text`` became. A kept one that the driver
        refuses is made anew."""
        context, module = self.context, c_void_p()
        context.enter()
        load = context.driver.functions["load"]
        failed = load(ctypes.byref(module), binary)
        if failed in REFUSED:
            compiler = compiler_of(context.driver.vendor)
            assert compiler is not None
            compiler.forget(self.kept, text, context.found.target)
            failed = load(ctypes.byref(module), self._binary(key, text))
        if failed:
            raise context.error("load", failed, device=self.name)
        return module

    def arguments(self, source: Source, ranges: Mapping[str, Range | bytes]) -> Arguments:
        """The arguments of a kernel, which stay as they are."""
        if source.grid:
            ranges = {**ranges, "grid": self._grid(source.grid)}
        return Arguments([ranges[binding.name] for binding in source.bindings])

    def _grid(self, name: str) -> Range:
        if name not in self._grids:
            self._grids[name] = self.upload(codebook_bytes(name))
        return self._grids[name]

    @forks.unless_ending
    def __del__(self) -> None:
        if hasattr(self, "_kernels"):
            context, modules = self.context, [k.module for k in self._kernels.values()]
            compute = getattr(self, "compute", None)

            def unload() -> None:
                if compute is not None:
                    compute.wait()
                for module in modules:
                    context.call("unload", module)
            context.later(unload)


class Arguments:
    """Where the values of a kernel's arguments are, and these values."""

    def __init__(self, values: list[Range | bytes]) -> None:
        self.memories = [v.buffer for v in values if isinstance(v, Range)]
        self._kept: list[Any] = [
            ctypes.create_string_buffer(v, len(v)) if isinstance(v, bytes)
            else ctypes.c_uint64(v.buffer.address + v.offset) for v in values]
        self.places = (c_void_p * len(values))(*map(ctypes.addressof, self._kept))
