"""What dispatch asks of a family of kernel texts and of a device.

A family is a language of kernel texts, such as WGSL. A target is a device that a driver opened. A
lowering knows both only by these protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Device

ALIGNMENT = 256
"""Bytes. A range that begins at a multiple of this can be bound on every device."""
WORKGROUP_BYTES = 16 << 10
"""Memory of a workgroup that every device has."""
MAX_GROUPS = 65535
"""Workgroups along one dimension of a grid that every device takes."""

Bytes = npt.NDArray[np.uint8]
Constants = Mapping[str, int | bool]
"""What a kernel is compiled for, by name: a number becomes a constant of its text, a truth keeps or
drops lines of it."""


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
        """Whether kernels read weights of block format ``quant`` as they are."""

    def has_codes(self, quant: str) -> bool:
        """Whether kernels can read weights of ``quant`` as int8 codes times a scale; "" is no
        format and has none."""


class Target(Protocol):
    """A device as a lowering sees it."""

    @property
    def name(self) -> str:
        """The device's name."""

    @property
    def device(self) -> Device:
        """The device as the rest of unladen knows it."""

    @property
    def family(self) -> Family:
        """The texts that the driver compiles."""

    @property
    def features(self) -> frozenset[str]:
        """Hardware abilities that kernels may use: "subgroups" adds over a workgroup by the
        hardware's reductions, "int_dot" multiplies four pairs of int8 at once."""

    @property
    def forgone(self) -> set[tuple[str, frozenset[str]]]:
        """(op, formats of its weights) whose nodes use none of :attr:`features`."""

    @property
    def alignment(self) -> int:
        """Bytes: the driver binds ranges that begin at a multiple; divides :data:`ALIGNMENT`."""

    @property
    def max_binding(self) -> int:
        """The longest range that a kernel binds, in bytes; a multiple of :data:`ALIGNMENT`."""

    @property
    def max_buffer(self) -> int:
        """The largest buffer, in bytes."""

    @property
    def max_storage_buffers(self) -> int:
        """How many ranges of memory a kernel can bind at once, with the step's words."""

    def upload(self, data: Bytes) -> Range:
        """A new buffer that holds ``data``, which no step changes; raises :class:`OutOfMemory`."""
