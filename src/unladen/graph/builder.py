"""Builds a graph node by node; what architectures are written in."""

from __future__ import annotations

from collections.abc import Mapping

from unladen.errors import UnsupportedModel
from unladen.graph.graph import BEFORE_LAYERS, Attr, Graph, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op


class GraphBuilder:
    """Collects nodes; each method of an architecture calls :meth:`add` through the parts.

    Inputs that every step brings: ``tokens`` i32 [T], ``positions`` i32 [T], with ``n_axes`` i32
    [T, n_axes], ``out_rows`` i32 [S]. :meth:`insert_rows` adds two.
    """

    def __init__(self, n_axes: int = 1) -> None:
        self.inputs = {
            "tokens": Value("tokens", ("T",), "i32"),
            "positions": Value("positions", ("T",) if n_axes == 1 else ("T", n_axes), "i32"),
            "out_rows": Value("out_rows", ("S",), "i32"),
        }
        self.layer = BEFORE_LAYERS
        self.n_layers = 0
        self._nodes: list[Node] = []
        self._names: set[str] = set()

    def add(self, op: str, inputs: tuple[Value, ...], *, name: str,
            weights: Mapping[str, Weight] | None = None,
            attrs: Mapping[str, Attr] | None = None, state: KVSpec | None = None
            ) -> tuple[Value, ...]:
        """Append one node and return its outputs; shapes and types come from the op's rule, and
        :class:`UnsupportedModel` where that has none for the inputs."""
        if self.layer >= 0:
            name = f"blk.{self.layer}.{name}"
        assert name not in self._names, f"two nodes are called {name}"
        self._names.add(name)
        bare = Node(name, op, inputs, (), weights or {}, attrs or {}, state, self.layer)
        try:
            results = get_op(op).infer(bare)
        except (AssertionError, ZeroDivisionError) as error:
            # What an op demands of its inputs depends on numbers that come from a file.
            raise UnsupportedModel(f"{name}: {op} can't take what the file gives it {error}",
                                   hint="metadata and tensors disagree: convert or fetch the file "
                                        "again") from error
        outputs = tuple(
            Value(name if len(results) == 1 else f"{name}.{i}", shape, dtype)
            for i, (shape, dtype) in enumerate(results))
        self._nodes.append(Node(name, op, inputs, outputs, bare.weights, bare.attrs, state,
                                self.layer))
        return outputs

    def one(self, op: str, *inputs: Value, name: str,
            weights: Mapping[str, Weight] | None = None,
            attrs: Mapping[str, Attr] | None = None, state: KVSpec | None = None) -> Value:
        """:meth:`add` for an op with one output."""
        (value,) = self.add(op, inputs, name=name, weights=weights, attrs=attrs, state=state)
        return value

    def insert_rows(self, x: Value) -> Value:
        """x f32 [T, n], with rows that the caller brings in place of some tokens'."""
        return self.one("insert_rows", x, *self.row_inputs(x), name="inserted_rows")

    def row_inputs(self, x: Value) -> tuple[Value, Value]:
        """``row_of`` i32 [T] and ``rows`` f32 [R, n] for x f32 [T, n]; from now on each step brings
        them."""
        self.inputs.setdefault("row_of", Value("row_of", ("T",), "i32"))
        self.inputs.setdefault("rows", Value("rows", ("R", *x.shape[1:])))
        return self.inputs["row_of"], self.inputs["rows"]

    def finish(self, **outputs: Value) -> Graph:
        """The graph; ``outputs`` are what a step gives back."""
        return Graph(tuple(self._nodes), self.inputs, outputs, self.n_layers)
