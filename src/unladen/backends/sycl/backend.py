"""The backend: devices and programs on SYCL."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.opened import Forgone
from unladen.backends._gpu.queued import QueueBackend
from unladen.backends._gpu.target import Family
from unladen.backends.base import Device, Program, Segment
from unladen.backends.sycl import driver
from unladen.backends.sycl.device import Gpu
from unladen.backends.sycl.program import SyclProgram


class SyclBackend(QueueBackend[Gpu]):
    """The backend of the package. ``sycl:0`` is a graphics processor where there is one."""

    name = "sycl"
    family: Family = c_texts

    def devices(self) -> Sequence[Device]:
        return [driver.device_of(d, f"sycl:{i}") for i, d in enumerate(driver.usable())]

    def why_none(self) -> str:
        return driver.why_none()

    def check_process(self) -> None:
        driver.PROCESS.check()

    def make(self, name: str, number: int, forgone: Forgone) -> Gpu:
        return Gpu(name, number, forgone)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return SyclProgram(gpu, segment.batch, segment.limits, lower(gpu, segment))
