"""The backend: devices, mapped memory and programs on Metal."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.backends._gpu import abilities, c_texts
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.opened import Forgone
from unladen.backends._gpu.queued import QueueBackend, QueueBuffer
from unladen.backends._gpu.target import Bytes, Family, Range
from unladen.backends.base import Buffer, Device, Program, Segment
from unladen.backends.metal import devices, objc
from unladen.backends.metal.device import PAGE, Gpu, Memory
from unladen.backends.metal.program import MetalProgram

VARIABLE = "UNLADEN_METAL_FEATURES"
"""The environment variable with the names of features to use, or "none". If it isn't set, kernels
use "subgroups": the hardware adds over the 32 threads of a SIMD group."""
FEATURES = frozenset({"subgroups"})


class MetalBackend(QueueBackend[Gpu]):
    """The backend of the package."""

    name = "metal"
    family: Family = c_texts

    def devices(self) -> Sequence[Device]:
        return [devices.device_of(d, f"metal:{i}", _features())
                for i, d in enumerate(devices.usable())]

    def why_none(self) -> str:
        return devices.why_none()

    def check_process(self) -> None:
        objc.PROCESS.check()

    def make(self, name: str, number: int, forgone: Forgone) -> Gpu:
        return Gpu(name, number, _features(), forgone)

    def wrap(self, device: Device, data: Bytes) -> Buffer | None:
        """See the base class. None where ``data`` begins at an odd address or is too long for a
        buffer."""
        gpu = self.gpu(device.name)
        if data.ctypes.data % gpu.alignment or data.nbytes + 2 * PAGE > gpu.max_buffer:
            return None
        memory = Memory(gpu, data.nbytes, data)
        return QueueBuffer(gpu, data.nbytes, (Range(memory, 0, data.nbytes),), data.nbytes)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return MetalProgram(gpu, segment.batch, segment.limits, lower(gpu, segment))


def _features() -> frozenset[str]:
    """The abilities that kernels use. Raises :class:`InvalidArgument` where the environment asks
    for one that doesn't exist."""
    return abilities.chosen(VARIABLE, FEATURES, "Metal", known=FEATURES)
