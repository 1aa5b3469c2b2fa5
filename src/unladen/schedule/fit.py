"""Counts bytes before anything is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unladen.backends.base import Device, KVLayout
from unladen.errors import OutOfMemory
from unladen.graph.graph import KVSpec
from unladen.quants import get


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes on one device. ``mapped_bytes`` are weights that stay in the mapped file: they need no
    allocation, and the system may drop and reread their pages."""

    device: Device
    mapped_bytes: int = 0
    weight_bytes: int = 0
    kv_bytes: int = 0
    arena_bytes: int = 0

    @property
    def allocated_bytes(self) -> int:
        """What must be allocated."""
        return self.weight_bytes + self.kv_bytes + self.arena_bytes


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by device, in the order of the devices."""

    devices: Sequence[DeviceMemory]

    def check(self, free: Mapping[str, int]) -> None:
        """Raise :class:`OutOfMemory` where a device has fewer ``free`` bytes than are needed. What
        computes on the host's memory shares it."""
        on_host = 0
        for memory in self.devices:
            have = free.get(memory.device.name, memory.device.memory_bytes)
            if memory.device.is_host:
                have = max(0, have - on_host)
                on_host += memory.allocated_bytes
            if memory.allocated_bytes > have:
                raise OutOfMemory(
                    device=memory.device.name, requested=memory.allocated_bytes, free=have,
                    hint="use a smaller context_size or batch_size, or a smaller kv_type")

    def __str__(self) -> str:
        head = f"{'device':12} {'mapped':>10} {'weights':>10} {'KV':>10} {'arena':>10} {'sum':>10}"
        return "\n".join([head, *(
            f"{m.device.name:12} {_mib(m.mapped_bytes)} {_mib(m.weight_bytes)} {_mib(m.kv_bytes)} "
            f"{_mib(m.arena_bytes)} {_mib(m.mapped_bytes + m.allocated_bytes)}"
            for m in self.devices)])


def kv_bytes(spec: KVSpec, layout: KVLayout) -> tuple[int, int]:
    """Bytes of a layer's K and V buffers."""
    rows = layout.n_blocks * layout.block_tokens * spec.n_kv_heads
    return (rows * get(layout.k_type).row_bytes(spec.k_dim),
            rows * get(layout.v_type).row_bytes(spec.v_dim))


def count(devices: Sequence[Device], layers: Mapping[str, Sequence[KVSpec]], layout: KVLayout,
          weights: Mapping[str, tuple[int, int]], arenas: Mapping[str, int]) -> MemoryPlan:
    """The plan: caches of ``layers`` by device, ``weights`` as (mapped, allocated) bytes by device,
    arenas by device."""
    result = []
    for device in devices:
        name = device.name
        mapped, allocated = weights.get(name, (0, 0))
        memory = DeviceMemory(device, mapped, allocated,
                              sum(sum(kv_bytes(s, layout)) for s in layers.get(name, ())),
                              arenas.get(name, 0))
        if memory != DeviceMemory(device):
            result.append(memory)
    return MemoryPlan(result)


def _mib(n: int) -> str:
    return f"{n / 2**20:6.1f} MiB"
