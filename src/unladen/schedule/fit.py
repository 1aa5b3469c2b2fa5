"""Counts the bytes that the graphs of a model take, before anything is allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout
from unladen.errors import OutOfMemory
from unladen.graph.graph import KVSpec, Node
from unladen.graph.windows import windows_of
from unladen.quants import get
from unladen.schedule.needs import Need, distinct
from unladen.types import Limits, size_text

_T = TypeVar("_T")

MARGIN = 32
"""Placement "auto" leaves 1/MARGIN of a device's memory free for drivers and other programs. A
pretended device is filled completely."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that one graph takes on ``devices``; sizes are bytes by device name. ``needs``:
    its weights. Graphs share a weight that they need on one device in one format. ``kv``: its
    caches and recurrent state. ``arenas``: what its largest step needs; graphs with the same
    ``arena`` take turns and share the memory. ``rings``: slots for weights that are streamed
    through. ``staging``: bytes on the host for values that go to or from other devices, by purpose;
    graphs with the same ``arena`` share these, too.
    """

    devices: Sequence[Device]
    needs: Sequence[Need]
    kv: Mapping[str, int]
    arenas: Mapping[str, int]
    rings: Mapping[str, int]
    staging: Mapping[str, int]
    arena: str

POOL_SHARE, COMMITTED_POOL_SHARE = 2, 8
"""The default cache takes 1/POOL_SHARE of the memory that a plan leaves free, and
1/COMMITTED_POOL_SHARE where a GPU takes the memory from the host at once. The rest is for a second
plan beside this one, for other programs, and on the host for pages of mapped files."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes on one device.

    ``mapped_bytes``: weights used where they lie in the mapped file; they need no allocation, and
    the system may drop and reread their pages. ``weight_bytes``: weights that are copied.
    ``kv_bytes``: all caches and recurrent state. ``arena_bytes``: values of a step. ``ring_bytes``:
    weights that are streamed through. ``staging_bytes``: values on their way from one device to
    another. ``taken_bytes``: the bytes that were allocated; None before the allocation.
    """

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
        """Bytes that stay allocated for as long as the plan lives."""
        return self.weight_bytes + self.kv_bytes + self.arena_bytes + self.ring_bytes

    @property
    def needed_bytes(self) -> int:
        """Bytes that must be free before the plan is allocated."""
        return self.allocated_bytes + self.staging_bytes


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by device, in the order of the devices. ``alone``: where the plan has several graphs,
    the bytes that each would take alone. Together they take less, since they share memory."""

    devices: Sequence[DeviceMemory]
    alone: Mapping[str, MemoryPlan] = field(default_factory=dict)

    def check(self, free: Mapping[str, int]) -> None:
        """Raise :class:`OutOfMemory` where a device has fewer ``free`` bytes than are needed; where
        the plan has several graphs, the error says how much each takes there."""
        for memory, left in zip(self.devices, self.left(free).values(), strict=True):
            if left < 0:
                name = memory.device.name
                raise OutOfMemory(
                    device=name, requested=memory.needed_bytes, free=memory.needed_bytes + left,
                    graphs={graph: plan.needed_on(name) for graph, plan in self.alone.items()},
                    hint="use a smaller context_size or batch_size, or a smaller kv_type; "
                         "or fewer layers there (n_gpu_layers)")

    def needed_on(self, device: str) -> int:
        """Bytes that must be free on ``device``."""
        return sum(m.needed_bytes for m in self.devices if m.device.name == device)

    def left(self, free: Mapping[str, int]) -> dict[str, int]:
        """Bytes by device that the plan leaves of ``free``, or of the device's whole memory where
        ``free`` lacks the device; below 0 where the device is too small. Devices on the host's
        memory share it. Those that compute on the host come first; the others get what is left."""
        have = {m.device.name: free.get(m.device.name, m.device.memory_bytes)
                for m in self.devices}
        on_host, result = 0, dict.fromkeys(have, 0)
        whole = _host_bytes((m.device for m in self.devices), have)
        for memory in sorted(self.devices, key=lambda m: not m.device.is_host):
            name, n = memory.device.name, have[memory.device.name]
            if memory.device.is_host:
                n = max(0, n - on_host)
            elif is_on_host(memory.device):
                n = min(n, max(0, whole - on_host))
            on_host += memory.needed_bytes * is_on_host(memory.device)
            result[name] = n - memory.needed_bytes
        return result

    def __repr__(self) -> str:
        """The bytes that must be free, without the weights that stay in the mapped file."""
        sizes = [f"{m.device.name} {size_text(m.needed_bytes)}" for m in self.devices]
        return f"<MemoryPlan: {', '.join(sizes) or 'nothing'}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """A notebook shows this: the table."""
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


def is_on_host(device: Device) -> bool:
    """Whether the memory of ``device`` is the host's, as an integrated GPU's is."""
    return device.is_host or device.commits_host_memory


def _host_bytes(devices: Iterable[Device], have: Mapping[str, int]) -> int:
    """The bytes that devices on the host's memory share, where each alone could ``have`` its number
    of bytes. A GPU may be limited to fewer than the host has."""
    shared = [d for d in devices if is_on_host(d)]
    hosts = [have[d.name] for d in shared if d.is_host]
    return min(hosts) if hosts else max((have[d.name] for d in shared), default=0)


def with_more(free: Mapping[str, int], devices: Iterable[Device],
              more: Iterable[tuple[Device, int]]) -> dict[str, int]:
    """The ``free`` bytes of ``devices`` and those that are taken now but count as free, ``more`` by
    device. All devices on the host's memory get what one of them gives back."""
    back: dict[str, int] = {}
    for device, n in more:
        name = "" if is_on_host(device) else device.name
        back[name] = back.get(name, 0) + n
    found = {d: free[d.name] + back.get("" if is_on_host(d) else d.name, 0) for d in devices}
    return {d.name: min(n, max(free[d.name], d.memory_bytes)) if d.commits_host_memory else n
            for d, n in found.items()}


def free_bytes(devices: Iterable[Device]) -> dict[str, int]:
    """The bytes that are free on each device now, as far as its backend knows."""
    return {d.name: backend_of(d.name).free_bytes(d) for d in devices}


def room(devices: Iterable[Device]) -> dict[str, int]:
    """The bytes that placement "auto" may use on each device: none where less than the margin is
    free."""
    return {d.name: max(0, backend_of(d.name).free_bytes(d) - (
        0 if d.is_host or d.is_pretend else d.memory_bytes // MARGIN)) for d in devices}


def layouts(nodes: Iterable[Node], limits: Limits, layout: KVLayout) -> dict[int, KVLayout]:
    """How the cache of each layer of ``nodes`` lies: that of whole sequences as ``layout`` says,
    that of a window of ``limits`` with blocks of its own."""
    groups = {tokens: i for i, (tokens, _) in enumerate(limits.windows)}
    found: dict[int, KVLayout] = {}
    for layer, window in windows_of(nodes).items():
        found[layer] = layout
        if window in groups:
            i = groups[window]
            found[layer] = replace(layout, n_blocks=limits.n_window_blocks(i), window=window,
                                   first_column=(1 + i) * limits.n_blocks_per_seq)
    return found


def kv_bytes(spec: KVSpec, layout: KVLayout) -> tuple[int, int]:
    """Bytes of a layer's K and V buffers."""
    rows = layout.n_blocks * layout.block_tokens * spec.n_kv_heads
    return (rows * get(layout.k_type).row_bytes(spec.k_dim),
            rows * get(layout.v_type).row_bytes(spec.v_dim))


def n_blocks(memory: MemoryPlan, caches: Iterable[tuple[KVSpec, Device]], layout: KVLayout,
             free: Mapping[str, int], most: int) -> int:
    """How many blocks the cache of a plan may have: as many as every device of ``caches`` has room
    for beside the plan's ``memory``, at most ``most``, and at least those of its ``layout``.
    """
    one = replace(layout, n_blocks=1)
    per_block: dict[str, int] = {}
    shared = [m for m in memory.devices if is_on_host(m.device)]
    left = memory.left(free)
    # Devices on the host's memory share it. Pages of mapped files count as free there.
    have = {m.device.name: free.get(m.device.name, m.device.memory_bytes) for m in shared}
    on_host = (_host_bytes((m.device for m in shared), have)
               - sum(m.needed_bytes for m in shared))
    host = (on_host - sum(m.mapped_bytes for m in memory.devices)) // POOL_SHARE
    for spec, device in caches:
        sizes = kv_bytes(spec, one)
        name = "" if device.is_host else device.name
        per_block[name] = per_block.get(name, 0) + sum(sizes)
        if device.max_binding_bytes:
            most = min(most, device.max_binding_bytes // max(1, *sizes))
    rooms = {m.device.name: min(left[m.device.name], on_host) // COMMITTED_POOL_SHARE
             if m.device.commits_host_memory else left[m.device.name] // POOL_SHARE
             for m in memory.devices if m.device.memory_bytes}
    for name, nbytes in per_block.items():
        room = rooms.get(name, 0) if name else host
        most = min(most, layout.n_blocks + room // max(1, nbytes))
    return max(layout.n_blocks, most)


def room_beside(room: Mapping[str, int], devices: Iterable[Device], weights: Collection[str],
                arena: str, beside: Mapping[str, Footprint]) -> dict[str, int]:
    """The bytes by device of ``room`` that the graphs ``beside`` it leave for one more graph. It
    may share its ``weights``, by name, and its ``arena`` with these graphs: shared bytes count as
    left."""
    if not beside:
        return dict(room)
    used = {m.device.name: m.needed_bytes for m in count(beside).devices}
    for need in distinct(f.needs for f in beside.values()):
        if need.weight.name in weights and not need.mapped:
            used[need.device.name] -= need.nbytes
    for name in used:
        used[name] -= max((f.arenas.get(name, 0) for f in beside.values() if f.arena == arena),
                          default=0)
    shared = {d.name for d in devices if is_on_host(d)}
    on_host = sum(used.get(d.name, 0) for d in _all_devices(beside) if is_on_host(d))
    return {name: n - (on_host if name in shared else used.get(name, 0))
            for name, n in room.items()}


def _all_devices(footprints: Mapping[str, Footprint]) -> list[Device]:
    return list({d.name: d for f in footprints.values() for d in f.devices}.values())


def count(footprints: Mapping[str, Footprint]) -> MemoryPlan:
    """What graphs take together, by name: each weight once, one arena for those that take turns,
    and the caches of all. Staging is counted on the first of the host's devices."""
    every = list(footprints.values())
    needs = distinct(f.needs for f in every)
    staging = sum(_by_arena(((f.arena, what), n) for f in every
                            for what, n in f.staging.items()).values())
    result = []
    for device in _all_devices(footprints):
        name = device.name
        mine = [n for n in needs if n.device.name == name]
        memory = DeviceMemory(
            device, sum(n.nbytes for n in mine if n.mapped),
            sum(n.nbytes for n in mine if not n.mapped),
            sum(f.kv.get(name, 0) for f in every),
            sum(_by_arena((f.arena, f.arenas.get(name, 0)) for f in every).values()),
            sum(f.rings.get(name, 0) for f in every),
            staging if device.is_host else 0)
        if memory != DeviceMemory(device):
            result.append(memory)
            staging *= not device.is_host
    return MemoryPlan(result, {} if len(every) < 2 else {
        name: count({name: f}) for name, f in footprints.items()})


def _by_arena(sizes: Iterable[tuple[_T, int]]) -> dict[_T, int]:
    """The largest size for each arena, or for each part of one."""
    result: dict[_T, int] = {}
    for arena, n in sizes:
        result[arena] = max(n, result.get(arena, 0))
    return result


def _mib(n: int) -> str:
    return f"{n / 2**20:6.1f} MiB"
