"""Finds nodes that one dispatch computes together, so that no value is stored between them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from unladen.backends._gpu.target import ALIGNMENT, Target
from unladen.graph.graph import Node, Value
from unladen.graph.ops.norm_groups import group_of
from unladen.types import Limits

RUN = 16
"""How many columns share a scale when they are rounded to int8."""
MOST_JOINED = 256
"""The most columns of a head that a workgroup rounds when it joins shares of keys."""
NORM_WRITE = "norm_write"
"""The kernel that norms and rotates queries and keys and stores keys and values in the cache."""
NORM_WRITE_BUFFERS = 10
"""How many ranges it binds, with the step's words."""


@dataclass(frozen=True, slots=True)
class Written:
    """A product of which keys and values go to the cache: nodes that follow one another.

    * ``product``: its results are ``keys``, ``values`` and at most one more, the queries.
    * ``rope``: the rotation of queries and keys, if there is one.
    * ``write``: the node that stores the keys, rotated, and the values.
    """

    product: Node
    rope: Node | None
    write: Node

    @property
    def keys(self) -> Value:
        """The keys before they are rotated."""
        return self.write.inputs[0] if self.rope is None else self.rope.inputs[1]

    @property
    def values(self) -> Value:
        """The values."""
        return self.write.inputs[1]

    @property
    def passed(self) -> Set[Value]:
        """The results of the product that are stored only in another form."""
        queries = () if self.rope is None else self.rope.inputs[:1]
        return {*queries, self.keys, self.values}


def written(nodes: Sequence[Node], inner: Set[Value]) -> list[Written]:
    """The products that rotate queries and keys and store keys and values in the cache.

    ``inner``: the values that only ``nodes`` read.
    """
    n_readers, ropes = _n_readers(nodes), set(turned(nodes, inner).values())
    found = []
    for i, (product, after) in enumerate(itertools.pairwise(nodes)):
        # A rotation of keys that is joined to their write comes right before it.
        rope, write = (after, nodes[i + 2]) if after in ropes else (None, after)
        if product.op == "linear" and write.op == "kv_write":
            each = Written(product, rope, write)
            if _is_whole(each) and each.passed <= inner and all(
                    n_readers[value] == 1 for value in each.passed):
                found.append(each)
    return found


@dataclass(frozen=True, slots=True)
class Normed:
    """Norms of all heads of queries and of keys, and what stores these keys: nodes that follow one
    another.

    * ``queries``, ``keys``: the norms.
    * ``rope``: the rotation of both, if there is one.
    * ``write``: the node that stores the keys, rotated, and the values.
    """

    queries: Node
    keys: Node
    rope: Node | None
    write: Node

    @property
    def result(self) -> Value:
        """The queries as attention reads them."""
        return self.queries.outputs[0] if self.rope is None else self.rope.outputs[0]

    @property
    def passed(self) -> Set[Value]:
        """Results of norms that aren't stored, other than keys that are only rotated."""
        queries = () if self.rope is None else self.queries.outputs
        return {*queries, *self.keys.outputs}

    @property
    def replaced(self) -> Sequence[Node]:
        """The nodes that have no dispatch of their own."""
        return [n for n in (self.queries, self.keys, self.rope) if n is not None]


def normed(nodes: Sequence[Node], inner: Set[Value], target: Target) -> list[Normed]:
    """The norms, rotations and writes that one dispatch on ``target`` computes together.

    ``inner``: the values that only ``nodes`` read.
    """
    if (not target.family.has_kernel(NORM_WRITE)
            or target.max_storage_buffers < NORM_WRITE_BUFFERS):
        return []
    n_readers, ropes = _n_readers(nodes), set(turned(nodes, inner).values())
    found = []
    for i in range(len(nodes) - 2):
        queries, keys, after = nodes[i:i + 3]
        rope, write = (after, nodes[i + 3]) if after in ropes else (None, after)
        if write.op == "kv_write":
            each = Normed(queries, keys, rope, write)
            if _is_of_heads(each) and each.passed <= inner and all(
                    n_readers[value] == 1 for value in each.passed):
                found.append(each)
    return found


def turned(nodes: Sequence[Node], inner: Set[Value]) -> Mapping[Value, Node]:
    """The keys that ``kv_write`` rotates while it stores them, and the ``rope`` node that it
    replaces, which rotates queries and these keys.

    ``inner``: the values that only ``nodes`` read.
    """
    n_readers = _n_readers(nodes)
    return {rope.outputs[1]: rope for rope, write in itertools.pairwise(nodes)
            if _is_joined(rope, write) and rope.outputs[1] in inner
            and n_readers[rope.outputs[1]] == 1}


def rounded(nodes: Sequence[Node], inner: Set[Value], takes_codes: Callable[[Node], bool]
            ) -> list[Value]:
    """The outputs of norms that are rounded to int8 as soon as they are made, for all products that
    read them. ``takes_codes``: whether all weights of a product meet int8."""
    readers = _readers(nodes)
    return [y for y in (n.outputs[0] for n in nodes if _is_norm_of_rows(n)) if y in inner
            and all(_is_product_of(n, y) and takes_codes(n) for n in readers[y])]


def rounded_later(nodes: Sequence[Node], inner: Set[Value], takes_tiles: Callable[[Node], bool]
                  ) -> list[Value]:
    """The results of gated products that may be rounded to int8 as soon as they are made, in steps
    of few rows. ``takes_tiles``: whether all weights of a product are in tiles and meet int8."""
    readers = _readers(nodes)
    return [y for y in (n.outputs[0] for n in nodes if n.op == "linear" and "act" in n.attrs)
            if y in inner and all(_is_product_of(n, y) and takes_tiles(n) for n in readers[y])]


def attended(nodes: Sequence[Node], inner: Set[Value]) -> Mapping[Value, Node]:
    """The results of attention that one product alone reads, and the product. Where workgroups
    share keys, the dispatch that joins the shares of a row can round it to int8.

    ``inner``: the values that only ``nodes`` read.
    """
    n_readers = _n_readers(nodes)
    sizes = {n.outputs[0]: n.state.v_dim for n in nodes
             if n.op == "attention" and n.state is not None}
    return {y: n for n in nodes for y in n.inputs[:1]
            if y in sizes and y in inner and n_readers[y] == 1 and _is_product_of(n, y)
            and sizes[y] % (2 * RUN) == 0 and sizes[y] <= MOST_JOINED}


def attended_bytes(value: Value, limits: Limits) -> int:
    """Bytes for ``value``, a result of :func:`attended`, as float32 and after that as int8."""
    return whole_bytes(value, limits) + sum(code_bytes(value, limits))


def whole_bytes(value: Value, limits: Limits) -> int:
    """Bytes for the rows of ``value`` as float32, up to where other numbers may begin."""
    return -(-4 * limits.count(value.shape) // ALIGNMENT) * ALIGNMENT


def only_few_coded(target: Target) -> bool:
    """Whether rows that are rounded as soon as they are made stay float32 in steps of many rows:
    ``target`` then multiplies numbers of 16 bits faster than int8."""
    return "wgmma" in target.features


def rounded_bytes(value: Value, target: Target, limits: Limits) -> int:
    """Bytes for the rows of ``value``, which are rounded as soon as they are made."""
    codes = sum(code_bytes(value, limits))
    return max(codes, 4 * limits.count(value.shape)) if only_few_coded(target) else codes


def rounded_later_bytes(value: Value, limits: Limits) -> int:
    """Bytes for the rows of ``value``: as float32, or as int8 where rows are few."""
    return max(4 * limits.count(value.shape), sum(code_bytes(value, limits)))


def code_bytes(value: Value, limits: Limits) -> tuple[int, int]:
    """Bytes for the rows of ``value`` as int8, and for the scales and sums of their runs."""
    return coded_bytes(limits.count(value.shape))


def coded_bytes(n: int) -> tuple[int, int]:
    """Bytes for ``n`` numbers as int8, and for the scales and sums of their runs."""
    codes = -(-n // ALIGNMENT) * ALIGNMENT
    return codes, -(-codes // RUN) * 8


def _readers(nodes: Sequence[Node]) -> Mapping[Value, list[Node]]:
    found = defaultdict[Value, list[Node]](list)
    for node in nodes:
        for value in node.inputs:
            found[value].append(node)
    return found


def _n_readers(nodes: Sequence[Node]) -> Mapping[Value, int]:
    return Counter(value for node in nodes for value in node.inputs)


def _is_whole(each: Written) -> bool:
    """Whether the product makes keys, values, and queries or nothing else."""
    outputs, passed = set(each.product.outputs), each.passed
    return (each.product.attrs.keys().isdisjoint(("act", "residual")) and passed <= outputs
            and len(passed) == (2 if each.rope is None else 3) and len(outputs) <= 3)


def _is_of_heads(each: Normed) -> bool:
    """Whether the norms are of heads of queries and of keys, with a weight for each column."""
    write, rope = each.write, each.rope
    assert write.state is not None
    dim = write.state.k_dim
    for norm in (each.queries, each.keys):
        if (norm.op != "rms_norm" or group_of(norm) != dim or norm.weights.keys() != {"w"}
                or norm.weights["w"].n_elements != dim):
            return False
    queries, keys = each.queries.outputs[0], each.keys.outputs[0]
    if rope is None:
        return write.inputs[0] is keys and queries not in write.inputs
    return rope.inputs[0] is queries and rope.inputs[1] is keys


def _is_product_of(node: Node, value: Value) -> bool:
    return node.op == "linear" and node.inputs[0] is value and value not in node.inputs[1:]


def _is_norm_of_rows(node: Node) -> bool:
    n_cols = node.inputs[0].shape[-1] if node.inputs else 0
    return (node.op == "rms_norm" and isinstance(n_cols, int) and n_cols % RUN == 0
            and group_of(node) == n_cols
            and all(w.n_elements == n_cols for w in node.weights.values()))


def _is_joined(rope: Node, write: Node) -> bool:
    # Neighbours alone: before a later node runs, the inputs of `rope` may be overwritten.
    if rope.op != "rope" or write.op != "kv_write" or len(rope.outputs) != 2:
        return False
    queries, keys = rope.outputs
    spec = write.state
    assert spec is not None
    return (write.inputs[0] is keys and queries not in write.inputs
            and rope.int_attr("head_dim") == spec.k_dim and spec.k_dim % 2 == 0)
