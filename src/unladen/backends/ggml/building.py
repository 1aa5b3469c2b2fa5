"""Builds a graph of ggml for one step: tensors over the plan's memory, and nodes in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends.base import PlacedKV, Segment
from unladen.backends.ggml.library import Library
from unladen.backends.ggml.memory import Context, GgmlBuffer, of_ggml
from unladen.backends.ggml.sizes import Sizes
from unladen.graph.batch import Batch
from unladen.graph.graph import Node, Value, Weight

F32, I32, I64 = 0, 26, 27
"""ggml's numbers of plain types."""
ALIGNMENT = 256
"""Temporaries begin at multiples of so many bytes."""

INTO_OTHERS = frozenset({"set_rows", "cpy", "clamp_inplace"})
"""Functions whose result is memory of one of their arguments."""

Filled = Callable[[Batch], npt.NDArray[Any]]
"""A function that gives the contents of an input in a step."""

QuantOf = Callable[[Weight], str]
"""A function that gives the format of a weight on the device."""


class Full(Exception):
    """A graph needs more tensors than its context has room for."""


class Builder:
    """Builds the graph of one step.

    A lowering asks for tensors of values, weights and caches, makes new tensors by :meth:`op`, and
    names a node's results by :meth:`result`. All tensors that it made are then placed: results in
    the arena, others in the scratch memory, one after another.

    * ``room``: the most tensors.
    * ``quant_of``: gives a weight's format on the device.
    * ``precise``: products take activations as float32.
    * ``segment``: None for the largest step of a plan that isn't there yet.
    * ``inputs``: a buffer of ``input_bytes`` or more. Without it nothing is placed, and the builder
      only counts ``scratch_bytes`` and ``input_bytes``.
    """

    def __init__(self, library: Library, sizes: Sizes, room: int, quant_of: QuantOf, *,
                 precise: bool = False, segment: Segment | None = None,
                 inputs: GgmlBuffer | None = None) -> None:
        self.library, self.sizes, self.segment = library, sizes, segment
        self._quant_of = quant_of
        self._input_buffer = inputs
        self.n_made, self._room = 0, room
        graph_bytes = library["graph_overhead_custom"](room, False)
        self.context = Context(library, room, graph_bytes)
        self.graph: int = library["new_graph_custom"](self.context.handle, room, False)
        self.inputs: list[tuple[int, Filled]] = []
        self.made: list[int] = []
        """Tensors that ggml computes, in order."""
        self._input_of: dict[object, int] = {}
        self._leaves: dict[object, int] = {}
        self._pending: list[tuple[int, bool]] = []
        self._results: list[tuple[int, Value]] = []
        self._cursor = 0
        self.scratch_bytes = 0
        self.input_bytes = 0
        self.precise = precise

    # Tensors that have contents already

    def value(self, value: Value) -> int:
        """The tensor [columns, rows] of a value, or a vector of int32."""
        if self.segment is not None and value in self.segment.batch_inputs:
            return self._batch_array(value, self.segment.batch_inputs[value])
        if value not in self._leaves:
            self._leaves[value] = leaf = self._shaped(value)
            if self.segment is not None:
                self._at(leaf, self.segment.arena, self.segment.offsets[value])
        return self._leaves[value]

    def _shaped(self, value: Value) -> int:
        kind = F32 if value.dtype == "f32" else I32
        rows, *rest = map(self.sizes.of_symbol, value.shape)
        if not rest:
            return self._make("new_tensor_1d", kind, rows)
        return self._make("new_tensor_2d", kind, int(np.prod(rest)), rows)

    def row_numbers(self, value: Value, n_rows: int) -> int:
        """The tensor of a value that chooses among ``n_rows`` rows. What the batch gives is cut to
        these: positions may be beyond the table, and ggml ends the process where they are."""
        if self.segment is not None and value in self.segment.batch_inputs:
            return self._batch_array(value, self.segment.batch_inputs[value], n_rows)
        return self.value(value)

    def _batch_array(self, value: Value, name: str, end: int | None = None) -> int:
        """The array ``name`` of the batch; with ``end`` its numbers are cut to 0 .. end - 1."""
        symbol = str(value.shape[0])

        def fill(batch: Batch) -> npt.NDArray[Any]:
            array: npt.NDArray[Any] = getattr(batch, name)
            array = array[:batch.size(symbol)]
            return array if end is None else np.clip(array, 0, end - 1)
        return self.input(("batch", name, end), I32, (self.sizes.of_symbol(symbol),), fill)

    def weight(self, weight: Weight) -> int:
        """The tensor of a weight in its format on the device."""
        if weight.name not in self._leaves:
            rows, n = weight.n_elements // weight.shape[-1], weight.shape[-1]
            leaf = self._make("new_tensor_2d", self.library.types[self._quant_of(weight)], n, rows)
            if self.segment is not None:
                placed = self.segment.weights[weight.name]
                self._at(leaf, placed.buffer, placed.offset)
            self._leaves[weight.name] = leaf
        return self._leaves[weight.name]

    def cache(self, node: Node, which: str) -> int:
        """All rows of K ("k") or V ("v") of the node's cache."""
        spec = node.state
        assert spec is not None
        width = spec.k_dim if which == "k" else spec.v_dim
        key = ("cache", spec.layer, which)
        if key not in self._leaves:
            placed = self.placed_kv(node)
            quant, n_rows = "F16", 1
            if placed is not None:
                layout = placed.layout
                quant = layout.k_type if which == "k" else layout.v_type
                n_rows = layout.n_blocks * spec.n_kv_heads * layout.block_tokens
            leaf = self._make("new_tensor_2d", self.library.types[quant], width, n_rows)
            if placed is not None:
                self._at(leaf, placed.k if which == "k" else placed.v, 0)
            self._leaves[key] = leaf
        return self._leaves[key]

    def placed_kv(self, node: Node) -> PlacedKV | None:
        """The node's cache, None where the builder only counts."""
        assert node.state is not None
        return None if self.segment is None else self.segment.kv[node.state.layer]

    def input(self, key: object, kind: int, shape: tuple[int, ...], fill: Filled) -> int:
        """A tensor that ``fill`` gives before every step. Equal keys share it."""
        if key not in self._input_of:
            tensor = self._make(f"new_tensor_{len(shape)}d", kind, *shape)
            self._input_of[key] = tensor
            self.inputs.append((tensor, fill))
            if self._input_buffer is not None:
                self._at(tensor, self._input_buffer, self.input_bytes)
            self.input_bytes += _aligned(self.library["nbytes"](tensor))
        return self._input_of[key]

    def shape(self, *shape: int) -> int:
        """A tensor without contents, to name a shape."""
        return self._make(f"new_tensor_{len(shape)}d", F32, *shape)

    # Tensors that ggml computes

    def op(self, name: str, *arguments: Any) -> int:
        """A new tensor, computed by ``ggml_name`` from others."""
        tensor = self._make(name, *arguments)
        self._pending.append((tensor, name in INTO_OTHERS))
        self.made.append(tensor)
        return tensor

    def view(self, name: str, tensor: int, *arguments: Any) -> int:
        """Another shape of a tensor or a part of it, by ``ggml_name``."""
        view = self._make(name, tensor, *arguments)
        self._pending.append((view, True))
        return view

    def result(self, value: Value, tensor: int) -> None:
        """``tensor``, made by :meth:`op`, is a node's output."""
        self._results.append((tensor, value))
        rows, *rest = map(self.sizes.of_symbol, value.shape)
        self._leaves[value] = self.view("reshape_2d", tensor, int(np.prod(rest)), rows)

    def wrote_cache(self, node: Node, which: str, tensor: int) -> None:
        """``tensor`` is the node's cache after new rows were written."""
        assert node.state is not None
        self._leaves["cache", node.state.layer, which] = tensor

    def flush(self, *, keep: bool = False) -> None:
        """Place what was made since the last call and append it to the graph. ``keep``: later
        nodes use the temporaries, which otherwise give their memory back."""
        results = dict(self._results)
        start = self._cursor
        for tensor, is_view in self._pending:
            if is_view:
                if self._input_buffer is not None:
                    self.library["backend_view_init"](tensor)
            elif tensor in results:
                if self.segment is not None:
                    self._at(tensor, self.segment.arena, self.segment.offsets[results[tensor]])
            else:
                self._temporary(tensor)
            self.library["build_forward_expand"](self.graph, tensor)
        self.scratch_bytes = max(self.scratch_bytes, self._cursor)
        if not keep:
            self._cursor = start
        self._pending, self._results = [], []

    def release(self) -> None:
        """Give the memory of all kept temporaries back."""
        self._cursor = 0

    def _temporary(self, tensor: int) -> None:
        if self.segment is not None:
            first, size = self.segment.scratch
            base = _aligned(of_ggml(self.segment.arena).base + first)
            n_bytes = self.library["nbytes"](tensor)
            used = base - of_ggml(self.segment.arena).base - first + self._cursor + n_bytes
            assert used <= size, "the plan has less scratch memory than scratch_bytes says"
            self._place(tensor, self.segment.arena, base + self._cursor)
        self._cursor += _aligned(self.library["nbytes"](tensor))

    # Placing

    def _at(self, tensor: int, buffer: object, offset: int) -> None:
        self._place(tensor, buffer, of_ggml(buffer).base + offset)  # type: ignore[arg-type]

    def _place(self, tensor: int, buffer: Any, address: int) -> None:
        if self._input_buffer is None:
            return
        self.library["backend_tensor_alloc"](of_ggml(buffer).handle, tensor, address)

    def _make(self, name: str, *arguments: Any) -> int:
        self.n_made += 1
        if self.n_made > self._room:
            raise Full
        return self.context.make(name, *arguments)


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT
