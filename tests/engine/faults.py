"""Backends whose memory runs out where a test wants it, and which count what is allocated."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Buffer, Device, Program, Use
from unladen.errors import OutOfMemory


class Faults:
    """Counts the allocations of ``names``' backends, and lets those in ``failing`` fail. Each step
    allocates a little too, as some backends do. ``cpu:1`` claims to have memory of its own.
    """

    def __init__(self, patch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
        self.n_allocations = 0
        self.failing: Any = ()
        self.live = 0
        for name in names:
            backend: Any = backend_of(name)
            patch.setattr(backend, "alloc", self._counting(backend.alloc))
            patch.setattr(backend, "run", self._allocating(backend, backend.run))
            if name == "cpu":
                patch.setattr(backend, "open", _with_a_far_one(backend.open))

    @contextmanager
    def failing_at(self, which: Any) -> Iterator[None]:
        """Allocations from here on are numbered 0, 1, ...; those in ``which`` fail."""
        self.n_allocations, self.failing = 0, which
        try:
            yield
        finally:
            self.failing = ()

    def live_bytes(self) -> int:
        """Bytes that are allocated and not freed, without a run of the garbage collector."""
        return self.live

    def _counting(self, alloc: Any) -> Any:
        def counted(device: Device, nbytes: int, use: Use, *rest: Any) -> Buffer:
            number, self.n_allocations = self.n_allocations, self.n_allocations + 1
            if number in self.failing:
                raise OutOfMemory(device=device.name, requested=nbytes, free=0, hint="it's a test")
            buffer: Any = alloc(device, nbytes, use, *rest)
            self.live += nbytes
            weakref.finalize(getattr(buffer, "data", buffer), self._free, nbytes)
            return buffer
        return counted

    def _free(self, nbytes: int) -> None:
        self.live -= nbytes

    def _allocating(self, backend: Any, run: Any) -> Any:
        def allocating(program: Program) -> None:
            held = backend.alloc(program.segment.device, 64, "arena")  # type: ignore[attr-defined]
            run(program)
            del held
        return allocating


def _with_a_far_one(open_: Any) -> Any:
    def opened(name: str, options: BackendOptions) -> Device:
        device: Device = open_(name, options)
        return replace(device, is_host=device.name != "cpu:1")
    return opened


@contextmanager
def faults(*names: str) -> Iterator[Faults]:
    """Faults in the backends ``names``, with the garbage collector turned off."""
    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            yield Faults(patch, names)
    finally:
        gc.enable()


def from_on(number: int) -> Any:
    """Allocation ``number`` and all after it."""
    return range(number, 1 << 30)
