"""Counts bytes before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout
from unladen.errors import OutOfMemory
from unladen.graph.graph import KVSpec
from unladen.quants import get
from unladen.types import size_text

MARGIN = 32
"""Of a device's memory one part in so many is left alone by "auto", unless it is only pretended:
drivers and other programs need some too."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes on one device. ``mapped_bytes`` are weights that stay in the mapped file: they need no
    allocation, and the system may drop and reread their pages. ``kv_bytes`` are all caches, those
    of recurrent state too. ``staging_bytes`` hold what is on its way between devices for a moment,
    ``ring_bytes`` weights that are streamed through. ``taken_bytes``: what was allocated in fact,
    None before that."""

    device: Device
    mapped_bytes: int = 0
    weight_bytes: int = 0
    kv_bytes: int = 0
    arena_bytes: int = 0
    ring_bytes: int = 0
    staging_bytes: int = 0
    taken_bytes: int | None = None

    @property
    def allocated_bytes(self) -> int:
        """What must be allocated for as long as the plan lives."""
        return self.weight_bytes + self.kv_bytes + self.arena_bytes + self.ring_bytes

    @property
    def needed_bytes(self) -> int:
        """What must be free."""
        return self.allocated_bytes + self.staging_bytes


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by device, in the order of the devices."""

    devices: Sequence[DeviceMemory]

    def check(self, free: Mapping[str, int]) -> None:
        """Raise :class:`OutOfMemory` where a device has fewer ``free`` bytes than are needed."""
        for memory, left in zip(self.devices, self.left(free).values(), strict=True):
            if left < 0:
                raise OutOfMemory(
                    device=memory.device.name, requested=memory.needed_bytes,
                    free=memory.needed_bytes + left,
                    hint="use a smaller context_size or batch_size, or a smaller kv_type; "
                         "or fewer layers there (n_gpu_layers)")

    def left(self, free: Mapping[str, int]) -> dict[str, int]:
        """By device, what is left of ``free`` (of all its memory, where that doesn't say); below 0
        where it isn't enough. What computes on the host's memory shares it."""
        result: dict[str, int] = {}
        on_host = 0
        for memory in self.devices:
            have = free.get(memory.device.name, memory.device.memory_bytes)
            if memory.device.is_host:
                have = max(0, have - on_host)
                on_host += memory.needed_bytes
            result[memory.device.name] = have - memory.needed_bytes
        return result

    def __repr__(self) -> str:
        """Without the weights that stay in the mapped file."""
        sizes = [f"{m.device.name} {size_text(m.needed_bytes)}" for m in self.devices]
        return f"<MemoryPlan: {', '.join(sizes) or 'nothing'}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows: the table."""
        printer.text(str(self))

    def __str__(self) -> str:
        """A table in MiB."""
        head = (f"{'device':12} {'mapped':>10} {'weights':>10} {'KV':>10} {'arena':>10} "
                f"{'ring':>10} {'staging':>10} {'sum':>10}")
        known = [m for m in self.devices if m.taken_bytes is not None]
        return "\n".join([head + f" {'allocated':>10}" * bool(known), *map(_row, self.devices)])


def _row(m: DeviceMemory) -> str:
    sizes = [m.mapped_bytes, m.weight_bytes, m.kv_bytes, m.arena_bytes, m.ring_bytes,
             m.staging_bytes, m.mapped_bytes + m.needed_bytes]
    if m.taken_bytes is not None:
        sizes.append(m.taken_bytes)
    return " ".join([f"{m.device.name:12}", *map(_mib, sizes)])


def free_bytes(devices: Iterable[Device]) -> dict[str, int]:
    """What is free on each device before a plan, as far as its backend knows."""
    return {d.name: backend_of(d.name).free_bytes(d) for d in devices}


def room(devices: Iterable[Device]) -> dict[str, int]:
    """What "auto" may take of each device."""
    return {d.name: backend_of(d.name).free_bytes(d) - (
        0 if d.is_host or d.is_pretend else d.memory_bytes // MARGIN) for d in devices}


def kv_bytes(spec: KVSpec, layout: KVLayout) -> tuple[int, int]:
    """Bytes of a layer's K and V buffers."""
    rows = layout.n_blocks * layout.block_tokens * spec.n_kv_heads
    return (rows * get(layout.k_type).row_bytes(spec.k_dim),
            rows * get(layout.v_type).row_bytes(spec.v_dim))


def count(devices: Sequence[Device], layers: Mapping[str, Sequence[KVSpec]], layout: KVLayout,
          weights: Mapping[str, tuple[int, int]], arenas: Mapping[str, int],
          staging: int = 0, rings: Mapping[str, int] = MappingProxyType({}),
          slots: Mapping[str, int] = MappingProxyType({})) -> MemoryPlan:
    """The plan: caches of ``layers`` by device, ``weights`` as (mapped, allocated) bytes by device,
    arenas, rings and bytes of recurrent state by device; ``staging`` on the host."""
    result = []
    for device in devices:
        name = device.name
        mapped, allocated = weights.get(name, (0, 0))
        memory = DeviceMemory(device, mapped, allocated,
                              sum(sum(kv_bytes(s, layout)) for s in layers.get(name, ()))
                              + slots.get(name, 0),
                              arenas.get(name, 0), rings.get(name, 0),
                              staging if device.is_host else 0)
        if memory != DeviceMemory(device):
            result.append(memory)
            staging *= not device.is_host
    return MemoryPlan(result)


def _mib(n: int) -> str:
    return f"{n / 2**20:6.1f} MiB"
