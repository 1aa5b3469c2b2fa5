"""The graph of a model: a list of nodes, built once, that says nothing of devices.

Nodes stand in program order. A ``kv_write`` changes the cache that an ``attention`` of the same
layer reads after it, so passes keep the order of nodes that share a state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from unladen.errors import UnsupportedQuant
from unladen.quants import get
from unladen.types import MAIN, DType, Shape

Attr = int | float | str | bool | tuple[float, ...]

BEFORE_LAYERS: Final = -1
"""The :attr:`Node.layer` of nodes that come before the first layer: token embeddings."""

AFTER_LAYERS: Final = -2
"""The :attr:`Node.layer` of nodes that come after the last layer: the output head."""


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A result of a node or an input of the graph: a dense array of ``shape``, last dimension
    contiguous."""

    name: str
    shape: Shape
    dtype: DType = "f32"

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's name for the element type."""
        return np.dtype(np.float32 if self.dtype == "f32" else np.int32)

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.shape))}]"


class TensorKey(NamedTuple):
    """Where a tensor is: the key of its file among those that are open, and its name in the
    file."""

    file: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of a file, or some of its rows or columns. ``shape``: slowest dimension first.

    ``tensor`` is GGUF's own name, ``quant`` the block format. ``first_row``: the first row of a
    slice; rows are contiguous in the file, so such a slice costs nothing. ``n_cols_of_tensor`` > 0:
    the weight has some columns of the tensor, which has so many, from ``first_col`` on; columns
    aren't contiguous, so they are copied when loaded. ``file``: the key of the tensor's file.
    ``private``: a copy of its own, which changes while a plan lives; the text makes its name
    unique.
    """

    tensor: str
    shape: tuple[int, ...]
    quant: str
    first_row: int = 0
    n_rows_of_tensor: int = 0
    first_col: int = 0
    n_cols_of_tensor: int = 0
    file: str = MAIN
    private: str = ""

    @property
    def key(self) -> TensorKey:
        """File and name of the whole tensor."""
        return TensorKey(self.file, self.tensor)

    @property
    def name(self) -> str:
        """A name that is unique among the graphs of a model: the tensor's name, after it the rows
        or columns of a slice, before it the key of the file and a colon unless that is
        :data:`MAIN`."""
        name = self.tensor if self.file == MAIN else f"{self.file}:{self.tensor}"
        name += f"@{self.private}" if self.private else ""
        if self.n_cols_of_tensor:
            return f"{name}[:, {self.first_col}:{self.first_col + self.shape[-1]}]"
        if self.shape[0] == self.n_rows_of_tensor or self.n_rows_of_tensor == 0:
            return name
        return f"{name}[{self.first_row}:{self.first_row + self.shape[0]}]"

    @property
    def n_elements(self) -> int:
        """How many numbers the weight holds."""
        return math.prod(self.shape)

    def nbytes_in(self, quant: str) -> int:
        """Bytes of the weight in the block format ``quant``."""
        return self.n_elements // self.shape[-1] * get(quant).row_bytes(self.shape[-1])

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry of the first dimension in the file's format."""
        if len(self.shape) == 1:
            return get(self.quant).row_bytes(1)
        return self.nbytes_in(self.quant) // self.shape[0]

    def rows(self, first: int, count: int) -> Weight:
        """Rows ``first .. first+count`` of this weight. Raises :class:`UnsupportedQuant` for a
        vector in blocks, which can be cut only between blocks."""
        assert first >= 0 and first + count <= self.shape[0], (self, first, count)
        assert not self.n_cols_of_tensor, self
        if len(self.shape) == 1 and get(self.quant).block_size > 1:
            raise UnsupportedQuant(f"{self.tensor} is a vector in {self.quant} blocks",
                                   hint="vectors are F32 or F16 in sound files: convert it again")
        total = self.n_rows_of_tensor or self.shape[0]
        return Weight(self.tensor, (count, *self.shape[1:]), self.quant, self.first_row + first,
                      total, file=self.file)

    def cols(self, first: int, count: int) -> Weight:
        """Columns ``first .. first+count`` of this weight, which is a whole matrix. Both ends are
        ends of blocks."""
        assert not self.n_rows_of_tensor and len(self.shape) == 2, self
        assert first % get(self.quant).block_size == count % get(self.quant).block_size == 0
        return Weight(self.tensor, (self.shape[0], count), self.quant, 0, 0, first, self.shape[1],
                      self.file)


@dataclass(frozen=True, slots=True)
class KVSpec:
    """The key/value cache of one layer: rows of ``n_kv_heads`` times ``k_dim`` and ``v_dim``.

    ``layer`` is the cache's number: that of its layer, or a number beyond the last layer for the
    second and later parts of a layer whose heads are divided among devices.
    """

    layer: int
    n_kv_heads: int
    k_dim: int
    v_dim: int


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One operation. ``weights``: by role ("w0", "b0", ...). ``layer``: its layer from 0 on, or
    :data:`BEFORE_LAYERS` or :data:`AFTER_LAYERS`."""

    name: str
    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    state: KVSpec | None = None
    layer: int = BEFORE_LAYERS

    def __repr__(self) -> str:
        ins = ", ".join(v.name for v in self.inputs)
        outs = ", ".join(map(repr, self.outputs))
        return f"{outs or self.name} = {self.op}({ins})"

    def int_attr(self, key: str) -> int:
        """Attribute ``key``, which must be an int (asserted: architectures write attributes)."""
        value = self.attrs[key]
        assert isinstance(value, int), (self.name, key)
        return value

    def float_attr(self, key: str) -> float:
        """Attribute ``key``, an int or a float, as a float."""
        value = self.attrs[key]
        assert isinstance(value, (int, float)), (self.name, key)
        return float(value)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in program order, the batch inputs they read, and the values that a step returns.

    ``changed``: values that the host may change once they are computed and before a node reads
    them. No pass fuses them away.
    """

    nodes: Sequence[Node]
    inputs: Mapping[str, Value]
    outputs: Mapping[str, Value]
    n_layers: int
    changed: frozenset[Value] = frozenset()

    def weights(self) -> Mapping[str, Weight]:
        """Every weight once, in the order of first use."""
        return {w.name: w for node in self.nodes for w in node.weights.values()}

    def states(self) -> Mapping[int, KVSpec]:
        """The cache of every layer that has one."""
        return {n.state.layer: n.state for n in self.nodes if n.state is not None}

    def replace_nodes(self, nodes: Sequence[Node]) -> Graph:
        """This graph with ``nodes`` in place of its own; passes return such graphs."""
        return replace(self, nodes=tuple(nodes))

    def uses(self) -> dict[Value, int]:
        """How often each value is read: by a node, as an output of the graph, or by the host that
        may change it."""
        counts: dict[Value, int] = {}
        for value in self._reads():
            counts[value] = counts.get(value, 0) + 1
        return counts

    def _reads(self) -> Iterator[Value]:
        for node in self.nodes:
            yield from node.inputs
        yield from self.outputs.values()
        yield from self.changed

    def __repr__(self) -> str:
        return (f"<Graph of {len(self.nodes)} nodes, {self.n_layers} layers: "
                f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}>")

    def __str__(self) -> str:
        return "\n".join(f"{node.layer:3d}  {node!r}" for node in self.nodes)
