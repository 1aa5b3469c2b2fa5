"""The devices that a GPU backend has opened, by name, and the programs on them."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from unladen.backends._gpu.backend import GpuBackend
from unladen.backends._gpu.memory import GpuBuffer
from unladen.backends._gpu.target import Target
from unladen.backends.base import BackendOptions, Buffer, Device, Program, device_number
from unladen.errors import BackendNotInitialised, UnladenError

log = logging.getLogger("unladen")

Forgone = set[tuple[str, frozenset[str]]]
"""See :attr:`Target.forgone`."""


class Opened(Target, Protocol):
    """An open device."""

    is_closed: bool

    @property
    def is_lost(self) -> bool:
        """Whether the device no longer takes work."""

    def wait(self) -> None:
        """Wait until all started work is done."""


class GpuProgram(Program, Protocol):
    """A compiled segment."""

    cancelled: bool

    @property
    def gpu(self) -> Opened:
        """Its device."""

    def run(self) -> None:
        """Start the step in the batch. Raises :class:`Cancelled`."""


G = TypeVar("G", bound=Opened)
M = TypeVar("M", bound=GpuBuffer)


class OpeningBackend(GpuBackend, Generic[G]):
    """Opens devices and runs programs. Numbers beyond the last device are more logical devices on
    the same ones."""

    def __init__(self) -> None:
        self._gpus: dict[str, G] = {}
        self.renew_lock()
        _backends().add(self)
        # By name of a device. Kept when it is closed, since its kernels are still wrong afterwards.
        self._forgone: dict[str, Forgone] = {}

    def renew_lock(self) -> None:
        """Make the lock for opening. A forked child makes its own, since the thread that held the
        old one doesn't exist there."""
        self._opening = threading.RLock()

    @abstractmethod
    def make(self, name: str, number: int, forgone: Forgone) -> G:
        """Open the device with this number. Raises :class:`BackendNotInitialised`."""

    @abstractmethod
    def check_process(self) -> None:
        """Raise :class:`BackendNotInitialised` where this process can't use the driver."""

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        self.check_process()
        name = f"{self.name}:{number}"
        with self._opening:
            gpu = self._gpus.get(name)
            if gpu is None or gpu.is_lost:
                gpu = self.make(name, number, self._forgone.setdefault(name, set()))
                self._gpus[name] = gpu
        return gpu.device

    def close(self, device: Device) -> None:
        """See the base class. What the driver made is freed with the last buffer or program that
        refers to it. Takes no lock: the garbage collector may close a device in any thread, while
        that thread holds a lock which opening waits for."""
        gpu = self._gpus.pop(device.name, None)
        if gpu is not None:
            gpu.is_closed = True

    def gpu(self, device: str) -> G:
        """The device behind the name; raises :class:`BackendNotInitialised` where it isn't open."""
        if device not in self._gpus:
            raise closed(device)
        return self._gpus[device]

    def open_gpus(self) -> Mapping[str, G]:
        """The devices that are open now, by name."""
        return dict(self._gpus)

    def run(self, program: Program) -> None:
        mine = cast(GpuProgram, program)
        if mine.gpu.is_closed:
            raise closed(mine.gpu.name)
        mine.run()

    def cancel(self, program: Program) -> None:
        cast(GpuProgram, program).cancelled = True

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()


@functools.cache
def _backends() -> weakref.WeakSet[OpeningBackend[Any]]:
    """The backends that this process has."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_renew_locks)
    return weakref.WeakSet()


def _renew_locks() -> None:
    for backend in list(_backends()):
        backend.renew_lock()


@atexit.register
def settle() -> None:
    """Wait for the work of open devices before the process ends: drivers may still read memory of
    the host, which Python then frees."""
    for backend in list(_backends()):
        for name, gpu in backend.open_gpus().items():
            try:
                backend.check_process()
                gpu.wait()
            except UnladenError as error:
                log.debug("%s isn't waited for: %s", name, error)


def open_buffer(buffer: Buffer, kind: type[M]) -> M:
    """``buffer``, which must be of its backend's ``kind``: a plan gives each backend its own
    buffers. Raises :class:`BackendNotInitialised` where its device was closed."""
    assert isinstance(buffer, kind), buffer
    gpu = cast(Opened, buffer.gpu)
    if gpu.is_closed:
        raise closed(gpu.name)
    return buffer


def closed(device: str) -> BackendNotInitialised:
    """The error for using ``device``, or a buffer or program on it, after it was closed."""
    return BackendNotInitialised(f"{device} is closed, or was never opened",
                                 hint="open it and allocate again: what was on it is gone")
