"""Divides the nodes of layers over several devices: split_mode "row" and "tensor".

"row": divides every matrix product by the rows of its matrices. Each device computes some columns
of the result; ``concat`` puts them side by side. "tensor": divides attention by heads and the
feed-forward network by its inner columns. Each device computes a partial result, and the partial
results are added: on every device where that is faster (:mod:`~unladen.schedule.cut.all_reduce`).
Devices then exchange values twice in a layer, not four times, and caches are divided too.

A node that can't be divided by columns stays whole or is divided by rows: a mixture of experts, or
heads that don't end on the border of a block. A backend needs only the op ``concat`` for this.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unladen.backends.base import Device
from unladen.graph.graph import AFTER_LAYERS, Attr, Graph, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.linear import n_weights
from unladen.graph.ops.norm_groups import group_of
from unladen.quants import get
from unladen.schedule.cut.all_reduce import AllReduce, Sharded, exchange, without_unused
from unladen.schedule.place import PlaceOptions, cuts, fractions

MODES = ("row", "tensor")
"""Values of ``split_mode`` that divide nodes."""

COLUMNWISE = ("activation", "glu", "scale", "add", "clamp", "softcap")
"""Ops that compute a column of their output from the same column of their inputs."""

NORMS = ("rms_norm", "layer_norm")
"""Ops that normalize groups of columns."""

REPEATED = (*COLUMNWISE, *NORMS, "select_rows")
"""Ops that take so little time that every device computes them for itself, rather than wait for the
results of another."""

ROWS = 32
"""Devices get multiples of this many rows of a matrix where that is possible: kernels take several
rows at once."""

Part = tuple[int, Value]
"""A device, by its index, and the columns of a value that this device has."""


def apply(graph: Graph, options: PlaceOptions, layers: set[int], devices: Sequence[Device]
          ) -> Sharded:
    """``graph`` with the nodes of ``layers`` divided over ``devices``, and the device of each part.

    The output head belongs to the last layer. Results that are put together again have the values
    that the graph had before.
    """
    shares = fractions(len(devices), options.tensor_split)
    sharder = _Sharder(graph, devices, shares, options.main_gpu)
    wanted = layers | ({AFTER_LAYERS} if graph.n_layers - 1 in layers else set())
    for node in graph.nodes:
        if node.layer not in wanted:
            sharder.whole(node)
        elif options.split_mode == "tensor":
            sharder.by_tensor(node)
            sharder.make_whole(node)
        else:
            sharder.by_rows(node)
    sharder.flush()
    divided, all_reduces = without_unused(graph.replace_nodes(sharder.nodes), sharder.repeated,
                                          sharder.all_reduces)
    there = set(divided.nodes)
    return Sharded(divided, {n: d for n, d in sharder.where.items() if n in there}, all_reduces)


def held_on(device: str, layers: Sequence[Device], device_of: Mapping[Node, tuple[Device, str]],
            options: PlaceOptions) -> set[int]:
    """The layers that ``device`` has, or has a part of where devices divide them. ``layers``: the
    device of each. ``device_of``: the device of each node, and why."""
    whole = {i for i, d in enumerate(layers) if d.name == device}
    if options.split_mode not in MODES:
        return whole
    return whole | {n.layer for n, (d, _) in device_of.items()
                    if d.name == device and n.layer >= 0 and not layers[n.layer].is_host}


def _is_headwise(node: Node, dim: int) -> bool:
    """Whether ``node`` computes each group of ``dim`` columns from that group alone, and all groups
    in the same way."""
    if node.op not in NORMS:
        return not node.weights
    return group_of(node) == dim and all(w.n_elements == dim for w in node.weights.values())


@dataclass
class _Sharder:
    graph: Graph
    devices: Sequence[Device]
    shares: Sequence[float]
    main: int
    nodes: list[Node] = field(default_factory=list)
    where: dict[Node, Device] = field(default_factory=dict)
    parts: dict[Value, list[Part]] = field(default_factory=dict)
    queues: dict[int, list[Node]] = field(default_factory=dict)
    """By device, the nodes whose results only that device needs so far. They stay together, so that
    each device gets one segment."""
    own: dict[Value, dict[int, Value]] = field(default_factory=dict)
    """By value that every device computes for itself, the values of the devices other than the main
    one."""
    repeated: set[Node] = field(default_factory=set)
    """The nodes that every device computes for itself."""
    all_reduces: list[AllReduce] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.exchanges = exchange(self.devices)
        self.readers: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            for value in node.inputs:
                self.readers.setdefault(value, []).append(node)
        self.wanted = self.graph.changed.union(self.graph.outputs.values())
        self.attention = {n.layer: n for n in self.graph.nodes if n.op == "attention"}
        self.n_attentions = Counter(n.state.layer for n in self.attention.values() if n.state)

    def whole(self, node: Node) -> None:
        """Keep ``node`` whole, on the device of its layer, and put its divided inputs together."""
        for value in node.inputs:
            if value in self.parts:
                self._join([v for _, v in self.parts.pop(value)], value, node)
        if any(v in queued.outputs for queued in self.queues.get(self.main, [])
               for v in node.inputs):
            self.flush()
        self.nodes.append(node)

    def by_rows(self, node: Node) -> None:
        """Divide a product by the rows of its matrices, and gather the results."""
        if node.op != "linear":
            return self.whole(node)
        sizes = [node.weights[f"w{i}"].shape[0] for i in range(n_weights(node))]
        unit = ROWS if all(n % ROWS == 0 for n in sizes) else 1
        ranges = [cuts(n, self.shares, unit) for n in sizes]
        products = self._products(node, ranges)
        for i, value in enumerate(node.outputs):
            columns = [v for _, v in products[i]]
            if "residual" in node.attrs:
                joined = Value(f"{value.name}.joined", value.shape)
                self._join(columns, joined, node)
                self._emit(node, "add", (joined, node.inputs[1]), value)
            else:
                self._join(columns, value, node)
        return None

    def by_tensor(self, node: Node) -> None:
        """Divide ``node`` by heads or inner columns where that is possible."""
        first = node.inputs[0] if node.inputs else None
        if node.op == "linear" and first in self.parts and self._fits(node, self.parts[first]):
            self._reduce(node, self.parts.pop(first))
        elif node.op == "linear" and (ranges := self._ranges(node)) is not None:
            for value, parts in zip(node.outputs, self._products(node, ranges), strict=True):
                self.parts[value] = parts
        elif first in self.parts and self._divisible(node):
            self._each(node)
        elif self._repeatable(node):
            self._repeat(node)
        else:
            self.by_rows(node)

    def make_whole(self, node: Node) -> None:
        """Put together those divided values of ``node`` that are needed whole: outputs of the
        graph, and values that may be changed, which are divided again after the change."""
        for value in node.outputs:
            if value not in self.wanted or value not in self.parts:
                continue
            parts = self.parts[value]
            self._join([v for _, v in parts], value, node)
            if value in self.graph.changed:
                self.parts[value] = self._divided(value, parts, node)

    def _divided(self, value: Value, parts: Sequence[Part], node: Node) -> list[Part]:
        """Divide ``value`` again into the columns that ``parts`` had."""
        found: list[Part] = []
        first = 0
        for i, part in parts:
            count = int(part.shape[1])
            name = f"{value.name}.changed@{self.devices[i].name}"
            again = Value(name, part.shape)
            columns = Node(name, "columns", (value,), (again,),
                           attrs={"first": first, "count": count}, layer=node.layer)
            self.where[columns] = self.devices[i]
            self.queues.setdefault(i, []).append(columns)
            found.append((i, again))
            first += count
        return found

    def flush(self) -> None:
        """Emit the nodes in the queues: those of the other devices first, so that they work at the
        same time as the main device."""
        for i in sorted(self.queues, key=lambda i: (i == self.main, i)):
            self.nodes += self.queues[i]
        self.queues.clear()

    def _products(self, node: Node, ranges: Sequence[Sequence[tuple[int, int]]]
                  ) -> list[list[Part]]:
        """For each output of ``node``, the columns that each device computes."""
        found: list[list[Part]] = [[] for _ in node.outputs]
        attrs = {k: v for k, v in node.attrs.items() if k != "residual"}
        for value in node.inputs[:1]:
            if value in self.parts:
                self._join([v for _, v in self.parts.pop(value)], value, node)
        for i in range(len(self.devices)):
            kept = [(j, r[i]) for j, r in enumerate(ranges) if r[i][0] < r[i][1]]
            weights: dict[str, Weight] = {}
            for new, (j, (begin, end)) in enumerate(kept):
                for role in "wb":
                    if f"{role}{j}" in node.weights:
                        weights[f"{role}{new}"] = node.weights[f"{role}{j}"].rows(
                            begin, end - begin)
            if kept:
                made = self._part(node, i, node.inputs[:1], weights, attrs, None)
                for j, value in zip([j for j, _ in kept], made, strict=False):
                    found[j].append((i, value))
        return found

    def _ranges(self, node: Node) -> list[list[tuple[int, int]]] | None:
        """The rows of each matrix that each device gets, such that devices exchange nothing before
        the next product; None where that is impossible."""
        sizes = [node.weights[f"w{i}"].shape[0] for i in range(n_weights(node))]
        attention = self.attention.get(node.layer)
        spec = attention.state if attention is not None else None
        if attention is not None and spec is not None and len(sizes) == 3:
            heads = attention.int_attr("n_heads")
            expected = [heads * spec.k_dim, spec.n_kv_heads * spec.k_dim,
                        spec.n_kv_heads * spec.v_dim]
            unit = self._unit(attention.outputs[0], spec.n_kv_heads)
            # A norm over all heads together needs them on one device.
            headwise = all(_is_headwise(n, spec.k_dim) for v in node.outputs
                           for n in self.readers.get(v, []))
            # The slope of a head depends on its number among all heads.
            alike = not attention.attrs.get("alibi")
            # If another layer reads this cache, it would have to be divided in the same way.
            own = self.n_attentions[spec.layer] == 1
            if sizes == expected and headwise and alike and own and unit is not None:
                groups = cuts(spec.n_kv_heads, self.shares, unit)
                return [[(a * n // spec.n_kv_heads, b * n // spec.n_kv_heads) for a, b in groups]
                        for n in sizes]
            return None
        inner = self._inner(node)
        unit = None if inner is None else self._unit(inner, sizes[0])
        return None if unit is None else [cuts(n, self.shares, unit) for n in sizes]

    def _inner(self, node: Node) -> Value | None:
        """The value that the last product of a feed-forward network reads, if ``node`` is the first
        product; else None."""
        if node.layer < 0 or "residual" in node.attrs:
            return None
        value = node.outputs[0]
        if "act" in node.attrs:
            return value
        readers = {n for v in node.outputs for n in self.readers.get(v, [])}
        only = readers.pop() if len(readers) == 1 else None
        return only.outputs[0] if only is not None and only.op in ("glu", "activation") else None

    def _unit(self, value: Value, n: int) -> int | None:
        """The least number of n equal pieces of ``value`` that end on a border of the blocks of the
        one product that reads it; None where there is no such number."""
        readers = self.readers.get(value, [])
        if len(readers) != 1 or readers[0].op != "linear" or n_weights(readers[0]) != 1:
            return None
        weight = readers[0].weights["w0"]
        piece, block = weight.shape[1] // n, get(weight.quant).block_size
        unit = math.lcm(piece, block) // piece
        return unit if n % unit == 0 and not weight.n_rows_of_tensor else None

    def _divisible(self, node: Node) -> bool:
        if node.op in ("attention", "kv_write", "rope"):
            return True
        if node.op in NORMS:
            group = group_of(node)
            return _is_headwise(node, group) and all(int(v.shape[1]) % group == 0
                                                     for _, v in self.parts[node.inputs[0]])
        widths = {v.shape[-1] for v in node.inputs}
        return (node.op in COLUMNWISE and not node.weights and len(widths) == 1
                and all(v in self.parts for v in node.inputs))

    def _fits(self, node: Node, parts: Sequence[Part]) -> bool:
        weight = node.weights["w0"]
        block = get(weight.quant).block_size
        return (n_weights(node) == 1 and not weight.n_rows_of_tensor
                and all(int(v.shape[1]) % block == 0 for _, v in parts))

    def _each(self, node: Node) -> None:
        """A copy of ``node`` on every device, which computes that device's columns."""
        rows: dict[int, list[Value]] = {}
        for value in node.inputs:
            for i, part in self.parts.get(value, []):
                rows.setdefault(i, []).append(part)
        shared = tuple(v for v in node.inputs if v not in self.parts)
        for value in node.outputs:
            self.parts[value] = []
        first_head = 0
        for i, mine in rows.items():
            state, attrs, weights = node.state, dict(node.attrs), node.weights
            if state is not None:
                state, attrs = self._state(node, state, i, mine)
            if state is not None and "sinks" in weights:
                n_heads = int(mine[0].shape[1]) // state.k_dim
                weights = {**weights, "sinks": weights["sinks"].rows(first_head, n_heads)}
                first_head += n_heads
            made = self._part(node, i, (*mine, *shared), weights, attrs, state)
            for value, part in zip(node.outputs, made, strict=True):
                self.parts[value].append((i, part))

    def _state(self, node: Node, state: KVSpec, i: int, inputs: Sequence[Value]
               ) -> tuple[KVSpec, dict[str, Attr]]:
        """The device's share of a cache, and of the heads."""
        width = int(inputs[0].shape[1])
        group = node.int_attr("n_heads") // state.n_kv_heads if node.op == "attention" else 1
        n_kv_heads = width // state.k_dim // group
        attrs = dict(node.attrs)
        if node.op == "attention":
            attrs["n_heads"] = n_kv_heads * group
        number = state.layer + i * self.graph.n_layers
        return replace(state, layer=number, n_kv_heads=n_kv_heads), attrs

    def _reduce(self, node: Node, parts: Sequence[Part]) -> None:
        """Multiply the columns of each device on that device, and add the products."""
        (value,), weight, begin = node.outputs, node.weights["w0"], 0
        partial: list[Value] = []
        for i, part in parts:
            n = int(part.shape[1])
            weights = {"w0": weight.cols(begin, n) if len(parts) > 1 else weight}
            if begin == 0 and "b0" in node.weights:
                weights["b0"] = node.weights["b0"]
            partial += self._part(node, i, (part,), weights, {}, None)
            begin += n
        partial += node.inputs[1:]
        self.flush()
        if len(partial) == 1:
            return self._join(partial, value, node)
        total, sums = partial[0], []
        for k, other in enumerate(partial[1:], 1):
            target = value if k == len(partial) - 1 else Value(f"{value.name}.sum{k}", value.shape)
            sums.append(self._made(node, "add", (total, other), target))
            total = target
        if self.exchanges and len(parts) > 1 and self._is_wanted_everywhere(node):
            self._sum_everywhere(partial[:len(parts)], sums)
        else:
            self.nodes += sums
        return None

    def _sum_everywhere(self, partial: Sequence[Value], sums: Sequence[Node]) -> None:
        """Let every device compute ``sums``, the first of which add the results ``partial``."""
        made = [self._repeat(node) for node in sums]
        adding = made[:len(partial) - 1]
        self.all_reduces.append(AllReduce(
            tuple(partial), tuple(v for node in adding[-1] for v in node.outputs),
            frozenset(node for each in adding for node in each)))

    def _is_wanted_everywhere(self, node: Node) -> bool:
        """Whether a product reads what ``node`` makes, or what devices compute from it for
        themselves. Where a mixture of experts on one device comes first, only that device needs the
        sum."""
        here, elsewhere = set(node.outputs) - self.graph.changed, set(self.graph.changed)
        nodes = iter(self.graph.nodes)
        for after in itertools.dropwhile(lambda n: n is not node, nodes):
            if not elsewhere.isdisjoint(after.inputs):
                elsewhere |= set(after.outputs)
            elif not here.isdisjoint(after.inputs):
                if after.op == "linear":
                    return True
                (here if after.op in REPEATED else elsewhere).update(after.outputs)
        return False

    def _repeatable(self, node: Node) -> bool:
        """Whether every device computes ``node`` for itself: it then needs no more values of others
        than if it got the result."""
        given = set(self.graph.inputs.values()) | self.own.keys()
        return (self.exchanges and node.op in REPEATED and node.state is None
                and not any(v in self.parts for v in node.inputs)
                and len(set(node.inputs) - given) <= 1
                and self.graph.changed.isdisjoint(node.outputs))

    def _repeat(self, node: Node) -> list[Node]:
        """Let every device compute ``node`` for itself. Returns the nodes of all devices."""
        made = []
        for i, device in enumerate(self.devices):
            mine = node
            if i != self.main:
                name = f"{node.name}@{device.name}"
                outputs = tuple(Value(f"{v.name}@{device.name}", v.shape, v.dtype)
                                for v in node.outputs)
                mine = replace(node, name=name, inputs=self._own(node.inputs, i), outputs=outputs)
                for value, copy in zip(node.outputs, outputs, strict=True):
                    self.own.setdefault(value, {})[i] = copy
            self.where[mine] = device
            self.repeated.add(mine)
            self.queues.setdefault(i, []).append(mine)
            made.append(mine)
        return made

    def _own(self, values: Iterable[Value], i: int) -> tuple[Value, ...]:
        """``values``, or what device ``i`` computed in place of them."""
        return tuple(self.own.get(v, {}).get(i, v) for v in values)

    def _part(self, node: Node, i: int, inputs: tuple[Value, ...], weights: Mapping[str, Weight],
              attrs: Mapping[str, Attr], state: KVSpec | None) -> list[Value]:
        name = f"{node.name}@{self.devices[i].name}"
        inputs = self._own(inputs, i)
        blueprint = Node(name, node.op, inputs, (), weights, attrs, state, node.layer)
        outputs = tuple(Value(f"{name}.{j}", shape, dtype)
                        for j, (shape, dtype) in enumerate(get_op(node.op).infer(blueprint)))
        part = Node(name, node.op, inputs, outputs, weights, attrs, state, node.layer)
        self.where[part] = self.devices[i]
        self.queues.setdefault(i, []).append(part)
        return list(outputs)

    def _join(self, columns: Sequence[Value], value: Value, node: Node) -> None:
        self.flush()
        self._emit(node, "concat", tuple(columns), value)

    def _emit(self, node: Node, op: str, inputs: tuple[Value, ...], value: Value) -> None:
        self.nodes.append(self._made(node, op, inputs, value))

    def _made(self, node: Node, op: str, inputs: tuple[Value, ...], value: Value) -> Node:
        return Node(f"{value.name}.{op}", op, inputs, (value,), layer=node.layer)
