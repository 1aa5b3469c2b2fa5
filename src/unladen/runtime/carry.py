"""From one plan to the next: weights and caches that needn't be read or computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from unladen.backends import backend_of
from unladen.backends.base import Buffer, Device, KVLayout, Placed, PlacedKV
from unladen.graph.graph import Graph, KVSpec, Node
from unladen.schedule import fit
from unladen.schedule.needs import Need


@dataclass(slots=True)
class Kept:
    """What a plan leaves to its successor: weights by (device name, weight name), the cache of each
    layer, and the slots of each node with recurrent state. ``rotations``: those of the keys."""

    weights: dict[tuple[str, str], Placed] = field(default_factory=dict)
    kv: dict[int, PlacedKV] = field(default_factory=dict)
    slots: dict[str, Buffer] = field(default_factory=dict)
    rotations: str = ""

    def restrict_to(self, graph: Graph) -> None:
        """Let go of keys that ``graph`` would have turned otherwise."""
        if self.kv and self.rotations != rotations(graph):
            self.kv.clear()

    def restrict(self, needs: Iterable[Need], layout: KVLayout) -> None:
        """Let go of what a plan with these ``needs`` and this ``layout`` has no use for."""
        wanted = {(n.device.name, n.weight.name): n.quant for n in needs}
        self.weights = {key: p for key, p in self.weights.items() if wanted.get(key) == p.quant}
        self.kv = {layer: kv for layer, kv in self.kv.items() if _holds(layout, kv.layout)}

    def shared_bytes(self, needs: Iterable[Need], caches: Mapping[int, tuple[KVSpec, Device]],
                     layout: KVLayout, slots: Mapping[str, tuple[int, Device]]) -> dict[str, int]:
        """Bytes by device that a plan of these needn't allocate."""
        shared: dict[str, int] = {}
        for need in needs:
            there = self.weights.get((need.device.name, need.weight.name))
            if there is not None and there.quant == need.quant and not need.mapped:
                shared[need.device.name] = shared.get(need.device.name, 0) + need.nbytes
        for layer, (_, device) in caches.items():
            kv = self.kv.get(layer)
            if kv is not None and kv.layout == layout and kv.k.device == device:
                shared[device.name] = shared.get(device.name, 0) + kv.k.nbytes + kv.v.nbytes
        for name, (nbytes, device) in slots.items():
            old = self.slots.get(name)
            if old is not None and old.nbytes == nbytes and old.device == device:
                shared[device.name] = shared.get(device.name, 0) + nbytes
        return shared


def rotations(graph: Graph) -> str:
    """What the keys of ``graph`` are turned by, in short: some models turn them more slowly in long
    contexts (longrope, Ding et al. 2024). Six digits, since machines differ in the last ones."""
    import hashlib
    tables = [[f"{number:.6g}" for number in (n.float_attr("magnitude"), *_numbers(n, "freqs"))]
              for n in graph.nodes if n.op == "rope_table"]
    return hashlib.sha256(repr(tables).encode()).hexdigest()


def _numbers(node: Node, key: str) -> tuple[float, ...]:
    found = node.attrs[key]
    assert isinstance(found, tuple), node
    return found


def take_over(caches: Mapping[int, tuple[KVSpec, Device]], layout: KVLayout, kept: Kept
              ) -> tuple[dict[int, PlacedKV], bool]:
    """The cache of every layer on its device, and whether it holds all that ``kept`` held.

    A cache that is there already is taken as it is; one on another device, or with fewer blocks,
    is copied and then dropped from ``kept``. One of other types is left: its rows must be computed
    again.
    """
    placed: dict[int, PlacedKV] = {}
    complete = True
    for layer, (spec, device) in caches.items():
        old = kept.kv.get(layer)
        usable = old is not None and old.spec == spec and _holds(layout, old.layout)
        complete = complete and usable
        if old is not None and usable and old.layout == layout and old.k.device == device:
            placed[layer] = old
            continue
        backend = backend_of(device.name)
        k, v = (backend.alloc(device, n, "kv") for n in fit.kv_bytes(spec, layout))
        placed[layer] = PlacedKV(spec, layout, k, v)
        if old is not None and usable:
            _move(k, old.k)
            _move(v, old.v)
            del kept.kv[layer], old
    return placed, complete


def take_over_slots(slots: Mapping[str, tuple[int, Device]], kept: Kept
                    ) -> tuple[dict[str, Buffer], bool]:
    """The recurrent state of each node on its device, of so many bytes, and whether it is all that
    ``kept`` held. State of as many slots is copied where its device has changed."""
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


def _holds(layout: KVLayout, old: KVLayout) -> bool:
    """Blocks of ``old`` can be blocks of ``layout``, under the same numbers."""
    return (layout.n_blocks >= old.n_blocks and (layout.block_tokens, layout.k_type, layout.v_type)
            == (old.block_tokens, old.k_type, old.v_type))


def _move(target: Buffer, source: Buffer) -> None:
    to, of = backend_of(target.device.name), backend_of(source.device.name)
    of.sync(source.device)
    if to is not of or not to.copy(target, 0, source, 0, source.nbytes):
        to.write(target, of.read(source, source.nbytes))
