"""The protocols by which a lowering knows a family of kernel texts and a device.

A family is a language of kernel texts, such as WGSL. A target is a device that a driver opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Device

ALIGNMENT = 256
"""A range that begins at a multiple of so many bytes can be bound on every device."""
WORKGROUP_BYTES = 16 << 10
"""Bytes of memory that a workgroup has on every device."""
FEWEST_BINDINGS = 8
"""The ranges of memory that a kernel can bind at once on every device of WebGPU."""
MAX_GROUPS = 65535
"""The most workgroups along one dimension of a grid that every device takes."""

Bytes = npt.NDArray[np.uint8]
Constants = Mapping[str, int | bool]
"""Constants that a kernel is compiled with, by name. A number becomes a constant of its text; True
or False keeps or drops lines of the text."""


@dataclass(frozen=True, slots=True)
class Range:
    """``nbytes`` bytes from ``offset`` on in a driver's ``buffer``, as a kernel binds them."""

    buffer: Any
    offset: int
    nbytes: int


class Family(Protocol):
    """Kernel texts in one language. A kernel has the same name, constants and bindings in each."""

    def has_kernel(self, kernel: str) -> bool:
        """Whether there is a text for ``kernel``."""

    def has_format(self, quant: str) -> bool:
        """Whether kernels read weights in block format ``quant``."""

    def has_codes(self, quant: str) -> bool:
        """Whether kernels can read weights in format ``quant`` as int8 codes times a scale; False
        for ""."""


class Target(Protocol):
    """A device as lowerings know it."""

    @property
    def name(self) -> str:
        """The device's name."""

    @property
    def device(self) -> Device:
        """The device as plans know it."""

    @property
    def family(self) -> Family:
        """The texts that the driver compiles."""

    @property
    def features(self) -> frozenset[str]:
        """Hardware abilities that kernels may use. "subgroups": the hardware's reductions add over
        a workgroup. "int_dot": one instruction multiplies four pairs of int8. "mma": matrix units
        as NVIDIA's chips since sm_80 have them. "wgmma": four warps multiply together (sm_90a).
        "pdl": kernels wait themselves for the launch before them (sm_90), so that they may
        begin early."""

    @property
    def forgone(self) -> set[tuple[str, frozenset[str]]]:
        """Pairs of an op and its weights' formats, for whose nodes no kernel uses
        :attr:`features`."""

    @property
    def alignment(self) -> int:
        """The driver binds ranges that begin at a multiple of so many bytes. Divides
        :data:`ALIGNMENT`."""

    @property
    def max_binding(self) -> int:
        """Bytes of the longest range that a kernel can bind; a multiple of :data:`ALIGNMENT`."""

    @property
    def max_buffer(self) -> int:
        """Bytes of the largest buffer."""

    @property
    def max_storage_buffers(self) -> int:
        """The most ranges of memory that a kernel can bind at once, the step's words included."""

    @property
    def workgroup_bytes(self) -> int:
        """Bytes of memory that a workgroup can have, at least :data:`WORKGROUP_BYTES`."""

    @property
    def launched_bytes(self) -> int:
        """Bytes of memory that a workgroup can have where a launch gives it some; 0: no launch
        can."""

    def upload(self, data: Bytes) -> Range:
        """A new buffer that holds ``data``, which no step changes; raises :class:`OutOfMemory`."""
