"""Builds a graph node by node; architectures are written with this builder."""

from __future__ import annotations

from collections.abc import Mapping

from unladen.errors import UnsupportedModel
from unladen.graph.graph import BEFORE_LAYERS, Attr, Graph, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op


class GraphBuilder:
    """Collects nodes. The methods of an architecture call :meth:`add` or :meth:`one`.

    Every graph has the inputs ``tokens`` i32 [T], ``positions`` i32 [T] (i32 [T, n_axes] if
    ``n_axes`` > 1) and ``out_rows`` i32 [S]. :meth:`insert_rows` adds ``row_of`` and ``rows``.
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
        """Append one node and return its outputs, whose shapes and types the op infers. Raises
        :class:`UnsupportedModel` where the op refuses the inputs, weights or attributes.

        * ``op``: the name of the op.
        * ``inputs``: values of this graph.
        * ``name``: the node's name, unique in its layer.
        * ``weights``: tensors of the file by role.
        * ``attrs``: the op's attributes.
        * ``state``: the cache that the node reads or writes.
        """
        if self.layer >= 0:
            name = f"blk.{self.layer}.{name}"
        assert name not in self._names, f"two nodes are called {name}"
        self._names.add(name)
        bare = Node(name, op, inputs, (), weights or {}, attrs or {}, state, self.layer)
        try:
            results = get_op(op).infer(bare)
        except (AssertionError, ZeroDivisionError) as error:
            # Not a bug of the architecture: sizes and attributes come from the file.
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
        """x f32 [T, n] with some tokens' rows replaced by rows that the caller brings."""
        return self.one("insert_rows", x, *self.row_inputs(x), name="inserted_rows")

    def row_inputs(self, x: Value) -> tuple[Value, Value]:
        """The inputs ``row_of`` i32 [T] and ``rows`` f32 [R, n] for x f32 [T, n], added to the
        graph if they aren't there yet."""
        self.inputs.setdefault("row_of", Value("row_of", ("T",), "i32"))
        self.inputs.setdefault("rows", Value("rows", ("R", *x.shape[1:])))
        return self.inputs["row_of"], self.inputs["rows"]

    def finish(self, **outputs: Value) -> Graph:
        """The graph of all nodes added so far. ``outputs``: the values that a step returns, by
        name."""
        return Graph(tuple(self._nodes), self.inputs, outputs, self.n_layers)
