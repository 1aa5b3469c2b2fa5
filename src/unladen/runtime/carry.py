"""Hands weights and caches from one plan set to the next, so that they needn't be read or computed
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from unladen.backends import backend_of
from unladen.backends.base import Buffer, Device, KVLayout, Placed, PlacedKV
from unladen.graph.graph import Graph, KVSpec, Node
from unladen.runtime.expert_cache import LayerCache
from unladen.schedule import fit
from unladen.schedule.blueprint import Blueprint
from unladen.schedule.blueprint_set import BlueprintSet
from unladen.schedule.needs import NeedKey


@dataclass(slots=True)
class KeptState:
    """What is kept of a graph: the cache of each layer, and the slots of each node with recurrent
    state. ``rotations``: a hash of the keys' rotation, by :func:`rotations`."""

    kv: dict[int, PlacedKV] = field(default_factory=dict)
    slots: dict[str, Buffer] = field(default_factory=dict)
    rotations: str = ""

    def restrict_to(self, graph: Graph) -> None:
        """Drop the caches if ``graph`` rotates keys by other angles."""
        if self.kv and self.rotations != rotations(graph):
            self.kv.clear()

    def shared_bytes(self, made: Blueprint) -> dict[str, int]:
        """Bytes by device that the graph of ``made`` needn't allocate."""
        shared: dict[str, int] = {}
        layouts = made.layouts
        for layer, (_, device) in made.caches().items():
            kv = self.kv.get(layer)
            if kv is not None and _is_in_place(kv, layouts[layer], device):
                shared[device.name] = shared.get(device.name, 0) + kv.k.nbytes + kv.v.nbytes
        for name, (nbytes, device) in made.slots().items():
            old = self.slots.get(name)
            if old is not None and old.nbytes == nbytes and old.device == device:
                shared[device.name] = shared.get(device.name, 0) + nbytes
        return shared


@dataclass(slots=True)
class Kept:
    """What a plan set leaves to the next one: its weights, the state of each graph, and its caches
    of experts by the names of their nodes."""

    weights: dict[NeedKey, Placed] = field(default_factory=dict)
    states: dict[str, KeptState] = field(default_factory=dict)
    experts: dict[str, LayerCache] = field(default_factory=dict)

    @property
    def has_caches(self) -> bool:
        """Whether the cache of any graph is kept."""
        return any(state.kv for state in self.states.values())

    def drop_caches(self) -> None:
        """Drop the caches of all graphs."""
        for state in self.states.values():
            state.kv.clear()

    def restrict_to(self, made: BlueprintSet) -> None:
        """Drop the cache of each graph whose keys are rotated by other angles in ``made``."""
        for name, blueprint in made.members.items():
            self.state_of(name).restrict_to(blueprint.graph)

    def restrict(self, made: BlueprintSet) -> None:
        """Drop what a plan set of ``made`` can't use."""
        wanted = {need.key for need in made.needs}
        self.weights = {key: placed for key, placed in self.weights.items() if key in wanted}
        buffers = {id(placed.buffer) for placed in self.weights.values()}
        self.experts = {name: layer for name, layer in self.experts.items()
                        if id(layer.tables[0].buffer) in buffers}
        self.states = {name: s for name, s in self.states.items() if name in made.members}
        for name, state in self.states.items():
            layouts = made.members[name].layouts
            state.kv = {layer: kv for layer, kv in state.kv.items()
                        if layer in layouts and _holds(layouts[layer], kv.layout)}

    def state_of(self, graph: str) -> KeptState:
        """The state that is kept of the graph called ``graph``."""
        return self.states.setdefault(graph, KeptState())

    def shared_bytes(self, made: BlueprintSet) -> dict[str, int]:
        """Bytes by device that a plan set of ``made`` needn't allocate."""
        shared: dict[str, int] = {}
        for need in made.needs:
            if need.key in self.weights and not need.mapped:
                shared[need.device.name] = shared.get(need.device.name, 0) + need.nbytes
        for name, blueprint in made.members.items():
            for device, n in self.state_of(name).shared_bytes(blueprint).items():
                shared[device] = shared.get(device, 0) + n
        return shared


def rotations(graph: Graph) -> str:
    """A hash of the angles by which ``graph`` rotates keys. Some models rotate them more slowly in
    long contexts (longrope, Ding et al. 2024). Angles are rounded to six digits, since machines
    differ in the last ones."""
    import hashlib
    tables = [[f"{number:.6g}" for number in (n.float_attr("magnitude"), *_numbers(n, "freqs"))]
              for n in graph.nodes if n.op == "rope_table"]
    return hashlib.sha256(repr(tables).encode()).hexdigest()


def _numbers(node: Node, key: str) -> tuple[float, ...]:
    found = node.attrs[key]
    assert isinstance(found, tuple), node
    return found


HUGE_PAGE = 2 << 20
"""Bytes of a huge page of the host. A cache doesn't use huge pages where a whole sequence is
smaller: a few tokens would then take the memory of many sequences."""

MOVED_BYTES = 256 << 10
"""Bytes of one piece of a cache that is moved: about as many blocks as a short text has."""


def take_over(caches: Mapping[int, tuple[KVSpec, Device]],
              layouts: Mapping[int, KVLayout], kept: KeptState,
              n_blocks_per_seq: int) -> tuple[dict[int, PlacedKV], bool]:
    """The cache of every layer on its device, and whether it holds all that ``kept`` held. A whole
    sequence has ``n_blocks_per_seq`` blocks.

    A cache that is in place is used as it is. A cache on another device, or with fewer blocks, is
    copied and then dropped from ``kept``. A cache of other types stays in ``kept``: its rows must
    be computed again.
    """
    placed: dict[int, PlacedKV] = {}
    complete = True
    for layer, (spec, device) in caches.items():
        layout = layouts[layer]
        old = kept.kv.get(layer)
        usable = old is not None and old.spec == spec and _holds(layout, old.layout)
        complete = complete and usable
        if old is not None and usable and _is_in_place(old, layout, device):
            placed[layer] = old if old.layout == layout else replace(old, layout=layout)
            continue
        backend = backend_of(device.name)
        k, v = (backend.alloc(device, n, "kv") for n in fit.kv_bytes(spec, layout))
        for buffer in (k, v):
            if buffer.nbytes // layout.n_blocks * n_blocks_per_seq < HUGE_PAGE:
                backend.discard(buffer, densely_used=False)
        placed[layer] = PlacedKV(spec, layout, k, v)
        if old is not None and usable:
            _move(k, old.k)
            _move(v, old.v)
            del kept.kv[layer], old
    return placed, complete


def take_over_slots(slots: Mapping[str, tuple[int, Device]], kept: KeptState
                    ) -> tuple[dict[str, Buffer], bool]:
    """The recurrent state of each node on its device, and whether it holds all that ``kept`` held.
    Where only its device has changed, state is copied. Where the number of slots has changed, it
    begins with zeros.
    """
    placed: dict[str, Buffer] = {}
    complete = True
    for name, (nbytes, device) in slots.items():
        old = kept.slots.get(name)
        usable = old is not None and old.nbytes == nbytes
        complete = complete and usable
        if old is not None and usable and old.device == device:
            placed[name] = old
            continue
        placed[name] = backend_of(device.name).alloc(device, nbytes, "kv")
        if old is not None and usable:
            _move(placed[name], old)
            del kept.slots[name], old
    return placed, complete


def _is_in_place(kv: PlacedKV, layout: KVLayout, device: Device) -> bool:
    """Whether ``kv`` is a cache of ``layout`` on ``device``. It is also where its window has
    another column in the block table, because the context is longer or shorter."""
    return (kv.k.device == device
            and replace(kv.layout, first_column=layout.first_column) == layout)


def _holds(layout: KVLayout, old: KVLayout) -> bool:
    """Whether the blocks of ``old`` can be blocks of ``layout``, with the same numbers."""
    return (layout.n_blocks >= old.n_blocks and _as_one_block(layout) == _as_one_block(old))


def _as_one_block(layout: KVLayout) -> KVLayout:
    return replace(layout, n_blocks=1, first_column=0)


def _move(target: Buffer, source: Buffer) -> None:
    """Copy ``source`` to ``target``, which is new and so holds zeros. Pieces of zeros are skipped,
    so the host needn't provide pages for them."""
    to, of = backend_of(target.device.name), backend_of(source.device.name)
    if not source.device.is_host and to is of and to.copy(target, 0, source, 0, source.nbytes):
        return
    for offset in range(0, source.nbytes, MOVED_BYTES):
        data = of.read(source, min(MOVED_BYTES, source.nbytes - offset), offset)
        if data.any():
            to.write(target, data, offset)
