"""Keeps the experts that are used most in a device's memory, where a layer's experts are on the
host: ``expert_cache``.

The layer's device chooses the experts of each token (``choose_experts``) and computes those that
its memory holds. The host computes the others at the same time. The sum of both is what the whole
node computes. A table on each side says which experts are its own (``slot_of`` of
:class:`~unladen.graph.ops.moe.Moe`); :mod:`unladen.runtime.expert_cache` changes both between
steps. At first the device holds the experts with the lowest numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Node, TensorKey, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.moe import EXPERT_ROLES, n_networks, seen_by_router
from unladen.schedule.place import Placement
from unladen.types import size_text

HOT, COLD = "most used experts", "experts that aren't in the cache"
"""Why a node is on its device."""

Table = npt.NDArray[np.float32]
"""For each expert, which of a node's experts it is, or -1."""


@dataclass(frozen=True, slots=True)
class CachedLayer:
    """The nodes that took the place of a layer's mixture: ``hot`` on ``device``, ``cold`` on
    ``host``. ``choice`` has the numbers of the chosen experts."""

    hot: Node
    cold: Node
    choice: Value
    device: Device
    host: Device

    @property
    def n_experts(self) -> int:
        """How many experts the layer has."""
        return n_networks(self.cold)

    @property
    def n_slots(self) -> int:
        """How many of them the device holds."""
        return self.hot.weights["down"].shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the experts that the device holds, in the file's formats."""
        return self.n_slots * slot_bytes(self.hot)

    def first_tables(self) -> Mapping[TensorKey, Table]:
        """The tables of the first step, by the key of the weight that stands for each."""
        numbers = np.arange(self.n_experts, dtype=np.float32)
        is_hot = numbers < self.n_slots
        return {self.hot.weights["slot_of"].key: np.where(is_hot, numbers, np.float32(-1)),
                self.cold.weights["slot_of"].key: np.where(is_hot, np.float32(-1), numbers)}


def slot_bytes(node: Node) -> int:
    """Bytes of one expert of the mixture ``node``, in the file's formats."""
    return sum(w.nbytes_in(w.quant) // w.shape[0] for role, w in node.weights.items()
               if role in EXPERT_ROLES)


def eligible(device_of: Mapping[Node, Device], layers: Sequence[Device]) -> list[Node]:
    """The mixtures that are whole on the host, in layers of another device."""
    return [n for n, device in device_of.items()
            if n.op == "moe" and device.is_host and n.layer >= 0 and n_networks(n) > 1
            and "first_expert" not in n.attrs and not layers[n.layer].is_host]


def add(graph: Graph, placement: Placement, n_slots: Mapping[str, int],
        runs: Callable[[Device, Node], bool]) -> tuple[Graph, Placement, list[CachedLayer]]:
    """``graph`` with each of its :func:`eligible` mixtures divided into a hot and a cold part, and
    the devices of all nodes. ``n_slots``: how many experts of each layer a device holds, by its
    name; at least one expert stays with the host alone. Mixtures stay whole where the device lacks
    an op that this needs, as ``runs`` says."""
    nodes: list[Node] = []
    device_of, why = dict(placement.device_of), dict(placement.why)
    wanted = set(eligible(placement.device_of, placement.layers))
    found: list[CachedLayer] = []
    for node in graph.nodes:
        device = placement.layers[node.layer] if node in wanted else None
        n = 0 if device is None else min(n_slots.get(device.name, 0), n_networks(node) - 1)
        if device is None or n < 1:
            nodes.append(node)
            continue
        host = device_of[node]
        parts = _divided(node, n, device, host)
        choose, hot, cold, total = parts
        if not all(runs(device, part) for part in (choose, hot, total)):
            nodes.append(node)
            continue
        nodes += parts
        device_of |= {choose: device, hot: device, cold: host, total: device}
        why |= {choose: HOT, hot: HOT, cold: COLD, total: HOT}
        found.append(CachedLayer(hot, cold, choose.outputs[0], device, host))
    return graph.replace_nodes(nodes), replace(placement, device_of=device_of, why=why), found


def noted(node: Node, device: Device) -> Value | None:
    """The choice of experts that ``node`` reads, if it is a cold part on the host."""
    is_cold = node.op == "moe" and "n_elsewhere" in node.attrs and device.is_host
    return node.inputs[-1] if is_cold else None


def _divided(node: Node, n: int, device: Device, host: Device) -> tuple[Node, Node, Node, Node]:
    """The choice, the hot part with ``n`` experts, the cold part, and their sum."""
    tag = f"{device.name}/{n}"
    has = {role: w for role, w in node.weights.items() if role != "select_b"}
    routing = {role: w for role, w in node.weights.items()
               if role in ("router", "router_b", "select_b")}
    is_given = bool(node.attrs.get("given"))
    bare = Node(f"{node.name}.choice", "choose_experts",
                (node.inputs[seen_by_router(node)], *node.inputs[len(node.inputs) - is_given:]), (),
                routing, node.attrs, layer=node.layer)
    ((shape, dtype),) = get_op("choose_experts").infer(bare)
    choose = replace(bare, outputs=(Value(bare.name, shape, dtype),))
    inputs = (*node.inputs[:len(node.inputs) - is_given], *choose.outputs)
    (y,) = node.outputs

    def part(where: Device, weights: Mapping[str, Weight], attrs: Mapping[str, int]) -> Node:
        name = f"{node.name}@{where.name}"
        table = Weight(f"{name}.slots", (n_networks(node),), "F32", private=tag)
        return Node(name, "moe", inputs, (Value(name, y.shape),), {**weights, "slot_of": table},
                    {**node.attrs, **attrs, "given": True}, layer=node.layer)

    held = {role: replace(w.rows(0, n), private=tag) if role in EXPERT_ROLES else w
            for role, w in has.items()}
    hot, cold = part(device, held, {}), part(host, has, {"n_elsewhere": n})
    total = Node(y.name, "add", (*hot.outputs, *cold.outputs), (y,), layer=node.layer)
    return choose, hot, cold, total


def lines(cached: Iterable[CachedLayer]) -> Iterator[str]:
    """A line for each device that says how many experts it holds."""
    by_device: dict[str, list[CachedLayer]] = {}
    for layer in cached:
        by_device.setdefault(layer.device.name, []).append(layer)
    for name, mine in by_device.items():
        counts = sorted({(each.n_slots, each.n_experts) for each in mine})
        numbers = ", ".join(f"{n} of {of}" for n, of in counts)
        yield (f"{numbers} experts in each of {len(mine)} layers are kept on {name}, those used "
               f"most ({size_text(sum(each.nbytes for each in mine))})")
