"""One logical device: the wgpu device, its queue, and the pipelines compiled so far."""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unladen.backends._gpu.backend import FUSIONS
from unladen.backends._gpu.memory import HINT
from unladen.backends._gpu.target import Bytes, Constants, Family, Range
from unladen.backends._host import free_host_bytes, total_host_bytes
from unladen.backends.base import Device
from unladen.backends.wgpu import features, source
from unladen.backends.wgpu.adapters import adapter_of, card_of, hardware, load, native
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.mapping import end_mapping
from unladen.backends.wgpu.source import Source, assemble
from unladen.errors import DeviceLost, OutOfMemory, UnladenError, UnsupportedOp
from unladen.quants import codebook

if TYPE_CHECKING:
    from unladen.backends.wgpu.vulkan import Card

LIMITS = ("max-storage-buffer-binding-size", "max-buffer-size",
          "max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup",
          "max-compute-workgroup-size-x", "max-storage-buffers-per-shader-stage",
          "min-storage-buffer-offset-alignment")
UNKNOWN_MEMORY = 1 << 46
"""Free bytes of a GPU whose driver doesn't report them; allocations fail where there are fewer."""
SOFTWARE_SPEED = 1e10
"""Bytes and operations per second of a software adapter. The CPU backend's kernels are faster than
this, so nothing is placed there for speed."""
MAPPABLE = "mappable-primary-buffers"
"""A feature of wgpu: the host can map buffers that kernels use. It is used only where GPU and host
share memory: an adapter with its own memory would keep such a buffer in the host's."""
WGSL = 2
"""WGPUSType_ShaderSourceWGSL of webgpu.h: the type of a structure that holds WGSL."""
BOUNDS_CHECKS = 1
"""WGPUShaderRuntimeChecks of wgpu.h: the compiler adds bounds checks, since some indices in kernels
come from files. ForceLoopBounding (2) is left out: it counts the iterations of every loop in 64
bits, and with it a model's steps took 2.4 times as long on an H200. Kernels don't need it: their
loops count up or down to a number that doesn't change (tests/backends/wgpu/test_source.py)."""
WRITE_BYTES = 16 << 20
"""The most bytes of one upload. The queue keeps a copy of them until the upload is done, so after
so many bytes it is told to begin, and at most two such portions are under way."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled kernel."""

    source: Source
    pipeline: Any
    layout: Any

    @property
    def handle(self) -> Any:
        """The pipeline's handle in the C library."""
        return self.pipeline._internal


class Gpu:
    """A logical device; it implements :class:`~unladen.backends._gpu.target.Target`."""

    family: Family = source
    launched_bytes = 0

    def __init__(self, name: str, number: int, forgone: set[tuple[str, frozenset[str]]]) -> None:
        module, _ = load()
        adapter = self.adapter = adapter_of(number)
        self.maps_weights = shares_host_memory(adapter) and MAPPABLE in adapter.features
        self.device = device_of(adapter, name)
        self.features = features.chosen(adapter)
        self.forgone = forgone
        # Staging buffers that the host has mapped or is mapping.
        self.mapped: weakref.WeakSet[Any] = weakref.WeakSet()
        self.is_closed = False
        # Bytes in the queue since the last portion was submitted, and that portion's number.
        self._n_waiting = 0
        self._portion: int | None = None
        self._writing = threading.Lock()
        wanted = features.device_features(adapter) + ([MAPPABLE] if self.maps_weights else [])
        with typed(name):
            self.wgpu = adapter.request_device_sync(
                required_features=wanted,
                required_limits={key: adapter.limits[key] for key in LIMITS})
        self.queue = self.wgpu.queue
        self.usage = module.BufferUsage
        self.max_binding: int = adapter.limits["max-storage-buffer-binding-size"] // 256 * 256
        self.max_buffer: int = adapter.limits["max-buffer-size"] // 256 * 256
        self.max_storage_buffers: int = adapter.limits["max-storage-buffers-per-shader-stage"]
        self.workgroup_bytes: int = adapter.limits["max-compute-workgroup-storage-size"]
        self.alignment: int = adapter.limits["min-storage-buffer-offset-alignment"]
        self.step_layout = self._layout(((0, "read-only-storage"),))
        self._pipelines: dict[tuple[str, str, tuple[tuple[str, int | bool], ...]], Pipeline] = {}
        self._grids: dict[str, Range] = {}

    @property
    def name(self) -> str:
        """The device's name."""
        return self.device.name

    def free_bytes(self) -> int:
        """Bytes that can be allocated now, as far as known."""
        if shares_host_memory(self.adapter):
            return min(free_host_bytes(), self.device.memory_bytes)
        return self.device.memory_bytes or UNKNOWN_MEMORY

    def buffer(self, nbytes: int, *, uniform: bool = False, mappable: bool = False,
               staging: bool = False) -> Any:
        """A zeroed buffer of ``nbytes``, rounded up to whole words. Raises :class:`OutOfMemory`.

        * ``uniform``: kernels bind it as a uniform.
        * ``mappable``: the host will write to it, through a mapping where that is possible.
        * ``staging``: the host will read it through a mapping, and no kernel binds it.
        """
        size = max(16, -(-nbytes // 16) * 16)
        free = min(self.free_bytes(), self.max_buffer)
        if size > free:
            raise OutOfMemory(device=self.name, requested=size, free=free, hint=HINT)
        usage = self.usage.COPY_DST | self.usage.COPY_SRC
        usage |= self.usage.UNIFORM if uniform else self.usage.STORAGE
        if mappable and self.maps_weights:
            usage |= self.usage.MAP_WRITE
        if staging:
            usage = self.usage.COPY_DST | self.usage.MAP_READ
        with typed(self.name, requested=size, free=free):
            return self.wgpu.create_buffer(size=size, usage=usage)

    def upload(self, data: Bytes, *, uniform: bool = False) -> Range:
        """A new buffer that holds ``data``; raises :class:`OutOfMemory`."""
        buffer = self.buffer(data.nbytes, uniform=uniform)
        self.write(buffer, 0, data)
        return Range(buffer, 0, data.nbytes)

    def write(self, buffer: Any, offset: int, data: Bytes) -> None:
        """Upload ``data``. ``offset`` and the size of ``data`` are multiples of 4."""
        with typed(self.name, requested=data.nbytes):
            is_mappable = bool(buffer.usage & self.usage.MAP_WRITE)
            if is_mappable and offset % 8 == 0 and data.nbytes:
                self._write_mapped(buffer, offset, data)
                return
            for start in range(0, data.nbytes, WRITE_BYTES):
                piece = data[start:start + WRITE_BYTES]
                self.queue.write_buffer(buffer, offset + start, piece)
                self._count_written(piece.nbytes)
                if is_mappable:
                    # Empty the queue: a later write through a mapping would overtake this one.
                    self.wait_for(self.submit())

    def _write_mapped(self, buffer: Any, offset: int, data: Bytes) -> None:
        with self._writing:
            if buffer.map_state != "unmapped":
                end_mapping(buffer)  # an interrupt came while another write ended its mapping
            try:
                buffer.map_sync("WRITE", offset, data.nbytes)
                buffer.write_mapped(data, offset)
            finally:
                end_mapping(buffer)

    def _count_written(self, nbytes: int) -> None:
        """Submit what is in the queue once that is a portion, and wait for the portion before."""
        with self._writing:
            self._n_waiting += nbytes
            if self._n_waiting < WRITE_BYTES:
                return
            self._n_waiting = 0
            before, self._portion = self._portion, self.submit()
        if before is not None:
            self.wait_for(before)

    @property
    def is_lost(self) -> bool:
        """Whether the device no longer takes work."""
        try:
            self.buffer(4)
        except DeviceLost:
            return True
        return False

    def wait(self) -> None:
        """Wait until all submitted work is done."""
        with typed(self.name):
            self.wgpu._poll_wait()

    def submit(self, *commands: Any) -> int:
        """Submit command buffers, and all writes before them. Returns the number of this submission
        for :meth:`wait_for`."""
        libf, ffi = native()
        handles = ffi.new("WGPUCommandBuffer[]", [each._internal for each in commands])
        return int(libf.wgpuQueueSubmitForIndex(self.queue._internal, len(commands), handles))

    def wait_for(self, submission: int) -> None:
        """Wait until ``submission`` is done."""
        libf, ffi = native()
        with typed(self.name):
            libf.wgpuDevicePoll(self.wgpu._internal, True,
                                ffi.new("WGPUSubmissionIndex *", submission))

    def pipeline(self, kernel: str, quant: str, constants: Constants) -> Pipeline:
        """The kernel for weights in ``quant`` with these constants, compiled on first use. Raises
        :class:`UnsupportedOp` with the compiler's message."""
        key = (kernel, quant, tuple(sorted(constants.items())))
        found = self._pipelines.get(key)
        if found is None:
            source = assemble(kernel, quant, constants)
            try:
                with typed(f"{self.name}: kernel {kernel} {quant}".rstrip()):
                    found = self._compile(source)
            except (DeviceLost, OutOfMemory):
                raise
            except UnladenError as error:
                raise UnsupportedOp(error.message, node=kernel, device=self.name,
                                    hint="a driver update may help") from error
            self._pipelines[key] = found
        return found

    def _compile(self, source: Source) -> Pipeline:
        layout = self._layout(tuple((number, kind) for number, kind, _ in source.bindings))
        module = self._module(source.text)
        whole = self.wgpu.create_pipeline_layout(bind_group_layouts=[self.step_layout, layout])
        pipeline = self.wgpu.create_compute_pipeline(
            layout=whole, compute={"module": module, "entry_point": "main"})
        return Pipeline(source, pipeline, layout)

    def _module(self, text: str) -> Any:
        """A shader module as wgpu-py's ``create_shader_module`` makes it, with only the checks of
        :data:`BOUNDS_CHECKS`."""
        libf, ffi = native()
        encoded = text.encode()
        data = ffi.new("char[]", encoded)
        code = ffi.new("WGPUShaderSourceWGSL *", {
            "chain": {"sType": WGSL}, "code": {"data": data, "length": len(encoded)}})
        described = ffi.new("WGPUShaderModuleDescriptor *", {
            "nextInChain": ffi.cast("WGPUChainedStruct *", code)})
        handle = libf.wgpuDeviceCreateShaderModuleTrusted(self.wgpu._internal, described,
                                                          BOUNDS_CHECKS)
        api = importlib.import_module("wgpu.backends.wgpu_native._api")
        return api.GPUShaderModule("", handle, self.wgpu)

    def _layout(self, bindings: Sequence[tuple[int, str]]) -> Any:
        stage = load()[0].ShaderStage.COMPUTE
        with typed(self.name):
            return self.wgpu.create_bind_group_layout(entries=[
                {"binding": number, "visibility": stage, "buffer": {"type": kind}}
                for number, kind in bindings])

    def bind(self, pipeline: Pipeline, ranges: Mapping[str, Range]) -> Any:
        """The bind group of ``pipeline``, with a range for every name that the kernel binds."""
        source = pipeline.source
        if source.grid:
            ranges = {**ranges, "grid": self._grid(source.grid)}
        return self._bind(pipeline.layout, [(n, ranges[name]) for n, _, name in source.bindings])

    def bind_step(self, step: Range) -> Any:
        """The bind group of the step's words, which all kernels share."""
        return self._bind(self.step_layout, [(0, step)])

    def _bind(self, layout: Any, ranges: Sequence[tuple[int, Range]]) -> Any:
        with typed(self.name):
            return self.wgpu.create_bind_group(layout=layout, entries=[
                {"binding": n, "resource": {"buffer": r.buffer, "offset": r.offset,
                                            "size": r.nbytes}} for n, r in ranges])

    def _grid(self, name: str) -> Range:
        if name not in self._grids:
            self._grids[name] = self.upload(
                np.ascontiguousarray(codebook(name)).view(np.uint8).reshape(-1))
        return self._grids[name]


def device_of(adapter: Any, name: str) -> Device:
    """The device called ``name`` on ``adapter``."""
    info = adapter.info
    is_software = info["adapter_type"] == "CPU"
    kind, speed = (", software", SOFTWARE_SPEED) if is_software else ("", 0.0)
    used = features.listed(adapter)
    return Device(name, f"{info['device']} ({info['backend_type']}{kind})", memory_of(adapter),
                  speed, speed,
                  features=tuple((f, f in used) for f in sorted(features.available(adapter))),
                  is_default=adapter in hardware(),
                  max_binding_bytes=min(adapter.limits["max-storage-buffer-binding-size"],
                                        adapter.limits["max-buffer-size"]) // 256 * 256,
                  commits_host_memory=shares_host_memory(adapter), fusions=FUSIONS,
                  runs_ahead=True, is_software=is_software)


def shares_host_memory(adapter: Any) -> bool:
    """Whether the adapter allocates the host's memory."""
    return adapter.info["adapter_type"] in ("CPU", "IntegratedGPU")


def memory_of(adapter: Any) -> int:
    """Bytes of memory that the adapter can use; 0 where nobody says."""
    card = budget_of(adapter)
    if not shares_host_memory(adapter):
        return card.memory_bytes if card else 0
    total = total_host_bytes()
    if adapter.info["backend_type"] == "Metal":
        return total * 2 // 3  # what Metal recommends to use at most on small machines
    return min(total, card.heap_bytes) if card and card.heap_bytes else total


def budget_of(adapter: Any) -> Card | None:
    """The card that says how much memory the adapter can use now; None where nobody says."""
    info = adapter.info
    is_metal = info["adapter_type"] == "IntegratedGPU" and info["backend_type"] == "Metal"
    return None if is_metal or info["adapter_type"] == "CPU" else card_of(adapter)
