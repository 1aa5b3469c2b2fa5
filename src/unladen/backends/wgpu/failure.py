"""Turns the errors of wgpu into this package's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unladen.backends._gpu.memory import HINT
from unladen.backends.wgpu.adapters import load
from unladen.errors import DeviceLost, OutOfMemory, UnladenError


@contextmanager
def typed(device: str, *, requested: int = 0, free: int = 0) -> Iterator[None]:
    """Turn errors of wgpu into :class:`OutOfMemory`, :class:`DeviceLost` or :class:`UnladenError`
    with its message. ``requested`` and ``free``: the bytes for :class:`OutOfMemory`."""
    module, _ = load()
    try:
        yield
    except module.GPUOutOfMemoryError as error:
        raise OutOfMemory(device=device, requested=requested, free=free, hint=HINT) from error
    except (module.GPUError, RuntimeError) as error:
        if isinstance(error, UnladenError):
            raise
        message = str(error)
        if "lost" in message.lower():
            raise DeviceLost(f"{device} stopped answering: {_first_line(message)}",
                             hint="load the model again; a driver update may help") from error
        if "not enough memory" in message.lower() or "out of memory" in message.lower():
            raise OutOfMemory(device=device, requested=requested, free=free, hint=HINT) from error
        raise UnladenError(f"{device}: {message}") from error


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else message
