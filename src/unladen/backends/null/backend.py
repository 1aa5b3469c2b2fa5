"""Pretend devices: they answer every call of the contract and compute no numbers."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unladen.backends.base import (
    Backend,
    BackendOptions,
    Buffer,
    Device,
    Program,
    Segment,
    Use,
    device_number,
)
from unladen.errors import InvalidArgument, OutOfMemory
from unladen.graph.graph import Node, Weight

MEMORY_VARIABLE = "UNLADEN_NULL_MEMORY"
"""Environment variable with the bytes of each pretend device, separated by commas."""
DEFAULT_MEMORY = 24 << 30
"""Bytes of a pretend device where the variable isn't set."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class NullBuffer:
    """A buffer of a pretend device, which reads as zeros."""

    device: Device
    nbytes: int


@dataclass(slots=True)
class NullProgram:
    """A program that counts its runs."""

    segment: Segment
    n_runs: int = 0


@dataclass
class NullBackend(Backend):
    """The backend of the package. ``null:0`` and so on have 24 GiB each, or the bytes that
    ``UNLADEN_NULL_MEMORY`` lists, separated by commas. Devices beyond the list have its last
    number."""

    name: str = "null"
    _used: dict[str, int] = field(default_factory=dict)

    def why_none(self) -> str:
        return "pretend devices are opened by name: null:0, null:1, ..."

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        return Device(f"null:{number}", "pretend", _memory(number), bandwidth=1e12, flops=1e14,
                      is_pretend=True, link_bandwidth=25e9, link_latency_s=10e-6, launch_s=5e-6,
                      survives_fork=True, is_deterministic=True)

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> NullBuffer:
        if use == "staging":  # staging is memory of the host, not of the device
            return NullBuffer(device, nbytes)
        used = self._used.get(device.name, 0)
        if used + nbytes > device.memory_bytes:
            raise OutOfMemory(device=device.name, requested=nbytes,
                              free=device.memory_bytes - used,
                              hint=f"let {device.name} have less to hold, or set "
                                   f"{MEMORY_VARIABLE} to more bytes")
        self._used[device.name] = used + nbytes
        buffer = NullBuffer(device, nbytes)
        weakref.finalize(buffer, self._free, device.name, nbytes)
        return buffer

    def _free(self, device: str, nbytes: int) -> None:
        self._used[device] -= nbytes

    def used_bytes(self, device: str) -> int:
        """Bytes allocated on ``device`` and not yet freed."""
        return self._used.get(device, 0)

    def wrap(self, device: Device, data: npt.NDArray[np.uint8]) -> NullBuffer | None:
        return NullBuffer(device, data.nbytes) if device.is_host else None

    def write(self, dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0) -> None:
        assert offset + src.nbytes <= dst.nbytes

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> npt.NDArray[np.uint8]:
        assert offset + nbytes <= src.nbytes
        return np.zeros(nbytes, np.uint8)

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        assert dst_offset + nbytes <= dst.nbytes and src_offset + nbytes <= src.nbytes
        return dst.device == src.device

    def supports(self, device: Device, node: Node) -> bool:
        return True

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        return weight.quant

    def compile(self, segment: Segment) -> Program:
        return NullProgram(segment)

    def run(self, program: Program) -> None:
        assert isinstance(program, NullProgram)
        program.n_runs += 1


def _memory(number: int) -> int:
    text = os.environ.get(MEMORY_VARIABLE)
    if text is None:
        return DEFAULT_MEMORY
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(f"{MEMORY_VARIABLE} must be bytes with commas between them, got "
                              f"{text!r}", hint="for example 25769803776,8589934592") from None
    return sizes[min(number, len(sizes) - 1)]
