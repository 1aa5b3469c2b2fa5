"""Memory of a device: in one piece, or one that grows; and its order with the work that uses it."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import weakref
from collections.abc import Sequence
from ctypes import c_size_t, c_uint64
from typing import TYPE_CHECKING, Protocol

from unladen.backends._gpu import forks
from unladen.backends._gpu.cuda_like.context import Context
from unladen.backends._gpu.cuda_like.streams import Event, Stream
from unladen.backends._gpu.cuda_like.vendor import NOT_SUPPORTED
from unladen.backends._gpu.memory import HINT
from unladen.errors import OutOfMemory, UnladenError

if TYPE_CHECKING:
    from unladen.backends._gpu.cuda_like.device import Gpu

log = logging.getLogger("unladen")

LEAST_GROWING = 8
"""Memory of fewer pages than this is allocated at once."""
DEVICE_MEMORY, PINNED_PAGES, READ_WRITE = 1, 1, 3
"""Numbers of cuda.h: a location on a device, pages that never move, and rights to them."""


class Uses(Protocol):
    """A program as memory knows it.

    * ``done``: the end of its last run.
    * ``awaits``: what its next run waits for.
    """

    done: Event | None
    awaits: list[Event]


class _Pages(ctypes.Structure):
    """CUmemAllocationProp of cuda.h."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("location_type", ctypes.c_int), ("location_id", ctypes.c_int),
                ("win32_meta", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class _Access(ctypes.Structure):
    """CUmemAccessDesc of cuda.h."""

    _fields_ = [("location_type", ctypes.c_int), ("location_id", ctypes.c_int),
                ("flags", ctypes.c_int)]


class Memory:
    """Zeroed memory of the driver, freed with the last reference to it. Raises
    :class:`OutOfMemory`.

    Work that uses it is in order: a copy begins after the runs and copies that were started before,
    and a run after such copies.
    """

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.gpu, self.nbytes = gpu, max(16, -(-nbytes // 16) * 16)
        self.address = 0
        self._touched: Event | None = None
        self._users: weakref.WeakSet[Uses] = weakref.WeakSet()
        self._allocate()

    def _allocate(self) -> None:
        gpu, found = self.gpu, c_uint64(0)
        free = gpu.context.free_bytes()
        if self.nbytes > free:
            raise OutOfMemory(device=gpu.name, requested=self.nbytes, free=free, hint=HINT)
        gpu.context.call("alloc", ctypes.byref(found), self.nbytes, device=gpu.name,
                         requested=self.nbytes, free=free)
        self.address = found.value
        self._fill(0, self.nbytes)

    def _fill(self, offset: int, nbytes: int) -> None:
        stream = self.gpu.uploads
        self.begin(stream)
        self.gpu.context.call("fill", self.address + offset, 0, nbytes, stream.handle,
                              device=self.gpu.name)
        self.end(stream)

    def reach(self, nbytes: int) -> None:
        """Make the first ``nbytes`` bytes usable."""
        assert nbytes <= self.nbytes, (nbytes, self.nbytes)

    @property
    def used_bytes(self) -> int:
        """Bytes that may hold something. Those behind them are zeros, for which there is no memory
        yet."""
        return self.nbytes

    def clear(self, offset: int, nbytes: int) -> None:
        """Fill a range with zeros, where there is memory."""
        end = min(offset + nbytes, self.used_bytes)
        if end > offset:
            self._fill(offset, end - offset)

    def discard(self) -> None:
        """Give back memory that grows; no work uses it."""
        return

    def settle(self) -> None:
        """Wait for the work that uses the memory, also that of other cards."""
        wait_for(self._touched, self.gpu.streams)
        self.gpu.context.enter()

    def use(self, program: Uses) -> None:
        """``program`` will use the memory."""
        self._users.add(program)
        if self._touched is not None:
            program.awaits.append(self._touched)

    def begin(self, stream: Stream) -> None:
        """The next work on ``stream`` will use the memory."""
        if self._touched is not None:
            stream.wait_for(self._touched)
        for program in self._users:
            if program.done is not None:
                stream.wait_for(program.done)

    def end(self, stream: Stream) -> Event:
        """The last work on ``stream`` used the memory. Returns its end."""
        self._touched = event = stream.record()
        if stream is not self.gpu.compute:
            for program in self._users:
                program.awaits.append(event)
        return event

    @forks.unless_ending
    def __del__(self) -> None:
        if self.address:
            context, address, streams = self.gpu.context, self.address, self.gpu.streams
            touched = self._touched

            def free() -> None:
                wait_for(touched, streams)
                context.enter()
                context.call("free", address)
            context.later(free)


class Growing(Memory):
    """Memory whose addresses are there from the start, and whose pages come when they are first
    used: a cache takes no more of the card than it holds."""

    page_bytes = 0
    _mapped = 0

    def _allocate(self) -> None:
        context, found = self.gpu.context, c_uint64(0)
        self._handles: list[tuple[int, int, int]] = []
        free = context.free_bytes()
        self.page_bytes = page_bytes_of(context)
        self._reserved = -(-self.nbytes // self.page_bytes) * self.page_bytes
        if self.nbytes > free:
            raise OutOfMemory(device=self.gpu.name, requested=self.nbytes, free=free, hint=HINT)
        failed = context.driver.functions["reserve"](ctypes.byref(found), self._reserved, 0, 0, 0)
        if failed == NOT_SUPPORTED:
            raise _NoPages
        if failed:
            raise context.error("reserve", failed, device=self.gpu.name, requested=self.nbytes,
                                free=free)
        with contextlib.ExitStack() as undo:
            undo.callback(context.driver.functions["unreserve"], found, self._reserved)
            _try_page(context, self.page_bytes, self.gpu.name)
            undo.pop_all()
        self.address = found.value
        context.promised_bytes += self._reserved

    @property
    def used_bytes(self) -> int:
        return min(self._mapped, self.nbytes)

    def reach(self, nbytes: int) -> None:
        super().reach(nbytes)
        if nbytes <= self._mapped:
            return
        # By half as much again, so that a long text needs few steps.
        wanted = max(nbytes, min(self._mapped * 3 // 2, self._reserved))
        more = -(-(wanted - self._mapped) // self.page_bytes) * self.page_bytes
        self._map(more)

    def _map(self, more: int) -> None:
        gpu, context, pages = self.gpu, self.gpu.context, c_uint64(0)
        what = _Pages(PINNED_PAGES, 0, DEVICE_MEMORY, context.found.handle)
        context.call("create_pages", ctypes.byref(pages), more, ctypes.byref(what), 0,
                     device=gpu.name, requested=more)
        at, access = self._mapped, _Access(DEVICE_MEMORY, context.found.handle, READ_WRITE)
        with contextlib.ExitStack() as undo:
            undo.callback(context.driver.functions["release_pages"], pages)
            context.call("map", self.address + at, more, 0, pages, 0, device=gpu.name,
                         requested=more)
            undo.callback(context.driver.functions["unmap"], self.address + at, more)
            context.call("allow", self.address + at, more, ctypes.byref(access), 1,
                         device=gpu.name, requested=more)
            undo.pop_all()
        self._handles.append((pages.value, at, more))
        self._mapped += more
        context.promised_bytes -= more
        self._fill(at, more)

    def discard(self) -> None:
        """Give all pages back."""
        if self._handles:
            self.settle()
            _unmap(self.gpu.context, self.address, self._handles)
            self.gpu.context.promised_bytes += self._mapped
            self._handles, self._mapped = [], 0

    @forks.unless_ending
    def __del__(self) -> None:
        if self.address:
            context, address, size = self.gpu.context, self.address, self._reserved
            streams, handles, touched = self.gpu.streams, self._handles, self._touched
            context.promised_bytes -= self._reserved - self._mapped

            def free() -> None:
                wait_for(touched, streams)
                context.enter()
                _unmap(context, address, handles)
                context.call("unreserve", address, size)
            context.later(free)


def _unmap(context: Context, address: int, handles: Sequence[tuple[int, int, int]]) -> None:
    for handle, at, nbytes in handles:
        context.call("unmap", address + at, nbytes)
        context.call("release_pages", handle)


def wait_for(touched: Event | None, streams: Sequence[Stream]) -> None:
    """Wait for the work on a device's streams, and for ``touched``, the end of a copy that may be
    on another card's stream."""
    for stream in streams:
        stream.wait()
    if touched is not None and touched.stream not in streams:
        try:
            touched.wait()
        except UnladenError:
            if not touched.stream.context.is_lost:
                raise
            # The other card was lost, so it copies no more.


def page_bytes_of(context: Context) -> int:
    """Bytes of a page of memory that grows; 0 where the card has none, though its driver has the
    functions: some virtual cards."""
    size, what = c_size_t(0), _Pages(PINNED_PAGES, 0, DEVICE_MEMORY, context.found.handle)
    context.enter()
    failed = context.driver.functions["granularity"](ctypes.byref(size), ctypes.byref(what), 0)
    if failed not in (0, NOT_SUPPORTED):
        raise context.error("granularity", failed)
    return 0 if failed else size.value


class _NoPages(Exception):
    """The system has no memory that grows, though its driver has the functions."""


def _try_page(context: Context, page_bytes: int, device: str) -> None:
    """Create a page and give it back; once for a context. Raises :class:`_NoPages`."""
    if context.has_pages:
        return
    pages, what = c_uint64(0), _Pages(PINNED_PAGES, 0, DEVICE_MEMORY, context.found.handle)
    failed = context.driver.functions["create_pages"](ctypes.byref(pages), page_bytes,
                                                      ctypes.byref(what), 0)
    if failed == NOT_SUPPORTED:
        raise _NoPages
    if failed:
        raise context.error("create_pages", failed, device=device, requested=page_bytes)
    context.call("release_pages", pages, device=device)
    context.has_pages = True


def growing(gpu: Gpu, nbytes: int) -> Memory:
    """Memory that grows, or plain memory where the system has none that does."""
    try:
        return Growing(gpu, nbytes)
    except _NoPages:
        log.debug("%s: this system has no memory that grows", gpu.name)
        return Memory(gpu, nbytes)


def may_grow(context: Context, nbytes: int) -> bool:
    """Whether memory of ``nbytes`` is allocated as it is used, where the system has such memory."""
    variable = context.driver.vendor.plain_variable
    if not variable or os.environ.get(variable, "0") not in ("", "0") or not context.driver.grows:
        return False
    page_bytes = page_bytes_of(context)
    return 0 < LEAST_GROWING * page_bytes <= nbytes
