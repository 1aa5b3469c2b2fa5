"""The backend: devices and programs on OpenCL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.opened import Forgone
from unladen.backends._gpu.queued import QueueBackend, of_queue
from unladen.backends._gpu.target import Bytes, Family
from unladen.backends.base import Buffer, Device, Mark, Program, Segment
from unladen.backends.opencl import copying, driver, platforms
from unladen.backends.opencl.device import Event, Gpu
from unladen.backends.opencl.program import OpenClProgram


class OpenClBackend(QueueBackend[Gpu]):
    """The backend of the package. ``opencl:0`` is a device of the fastest kind."""

    name = "opencl"
    family: Family = c_texts

    def devices(self) -> Sequence[Device]:
        return [platforms.device_of(d, f"opencl:{i}") for i, d in enumerate(platforms.usable())]

    def why_none(self) -> str:
        return platforms.why_none()

    def check_process(self) -> None:
        driver.PROCESS.check()

    def make(self, name: str, number: int, forgone: Forgone) -> Gpu:
        return Gpu(name, number, forgone)

    def mark(self, device: Device) -> Mark:
        return self.gpu(device.name).mark()

    def write_ahead(self, dst: Buffer, src: Bytes, offset: int = 0, *, after: Mark
                    ) -> Callable[[], None]:
        assert isinstance(after, Event), after
        return copying.write_ahead(of_queue(dst), src, offset, after)

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        return OpenClProgram(gpu, segment.batch, segment.limits, lower(gpu, segment))
