"""Runs a segment: a graph of ggml for each size of a step, and steps of the host between them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from unladen.backends.base import PlacedKV, Segment
from unladen.backends.ggml.attending import n_parts, needs_host, write_on_host
from unladen.backends.ggml.building import ALIGNMENT, Builder
from unladen.backends.ggml.driver import Driver, threads
from unladen.backends.ggml.lowering import LOWERINGS
from unladen.backends.ggml.memory import GgmlBuffer, address, alloc, of_ggml, read
from unladen.backends.ggml.sizes import Sizes
from unladen.errors import DeviceLost
from unladen.graph.batch import Batch
from unladen.graph.graph import Node
from unladen.types import Limits

MOST_GRAPHS: Final = 16
"""Graphs that a program keeps, for the sizes that were used last."""
PER_NODE: Final = 96
"""Tensors that a node needs at most; attention needs so many for each part of its tokens."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A graph of some nodes for one size, and the threads that run it."""

    builder: Builder
    inputs: GgmlBuffer
    n_threads: int

    def run(self, driver: Driver, batch: Batch) -> None:
        """Give the inputs and compute."""
        library = driver.library
        for tensor, fill in self.builder.inputs:
            data = np.ascontiguousarray(fill(batch))
            assert data.nbytes == library["nbytes"](tensor), (data.shape, data.dtype)
            library["backend_tensor_set"](tensor, address(data), 0, data.nbytes)
        status = driver.compute(self.builder.graph, self.n_threads)
        if status:
            raise DeviceLost(f"{driver.device.name}: ggml ended a step with status {status}",
                             hint="its log says why; load the model again")


Step = Callable[[Batch], None]
"""A part of a step."""


class GgmlProgram:
    """A compiled segment."""

    def __init__(self, driver: Driver, segment: Segment) -> None:
        self._driver, self._segment = driver, segment
        self._steps: OrderedDict[Sizes, Sequence[Step]] = OrderedDict()

    def run(self) -> None:
        """One step of the segment's batch."""
        batch = self._segment.batch
        sizes = Sizes.of(batch)
        steps = self._steps.get(sizes)
        if steps is None:
            while len(self._steps) >= MOST_GRAPHS:
                self._steps.popitem(last=False)
            steps = self._steps[sizes] = self._build(sizes)
        self._steps.move_to_end(sizes)
        for step in steps:
            step(batch)

    def _build(self, sizes: Sizes) -> list[Step]:
        """The parts of a step: graphs, and nodes that the host runs between them."""
        steps: list[Step] = []
        nodes: list[Node] = []
        for node in self._segment.nodes:
            if node.op in sizes.skip or not _has_rows(node, sizes):
                continue
            placed = self._segment.kv[node.state.layer] if node.state else None
            if node.op == "kv_write" and placed is not None and needs_host(placed):
                steps += self._graph(nodes, sizes)
                steps.append(self._on_host(node, placed))
                nodes = []
            else:
                nodes.append(node)
        return [*steps, *self._graph(nodes, sizes)]

    def _graph(self, nodes: Sequence[Node], sizes: Sizes) -> list[Step]:
        if not nodes:
            return []
        driver, segment = self._driver, self._segment

        def builder(inputs: GgmlBuffer | None) -> Builder:
            return Builder(driver.library, sizes, room_for(nodes, sizes),
                           lambda weight: segment.weights[weight.name].quant,
                           precise=segment.options.precise, segment=segment, inputs=inputs)
        n_bytes = lowered(builder(None), nodes, driver).input_bytes
        inputs = alloc(driver.library, driver.device, driver.kind, n_bytes, driver.free_bytes())
        stage = Stage(lowered(builder(inputs), nodes), inputs,
                      threads(segment.options, sizes.n_tokens))
        return [lambda batch: stage.run(driver, batch)]

    def _on_host(self, node: Node, placed: PlacedKV) -> Step:
        # The step keeps the segment and not the program, which keeps the step.
        library, segment, n_heads = self._driver.library, self._segment, placed.spec.n_kv_heads

        def step(batch: Batch) -> None:
            n = batch.n_tokens
            k, v = (read(library, of_ggml(segment.arena), 4 * n * n_heads * width,
                         segment.offsets[x]).view(np.float32).reshape(n, n_heads, width)
                    for x, width in zip(node.inputs, (placed.spec.k_dim, placed.spec.v_dim),
                                        strict=True))
            write_on_host(library, placed, batch, k, v)
        return step


def lowered(builder: Builder, nodes: Sequence[Node], checks: Driver | None = None) -> Builder:
    """``builder`` after it built ``nodes``. ``checks``: a device that must run them all. Raises
    :class:`UnsupportedOp`."""
    for node in nodes:
        n_before = len(builder.made)
        LOWERINGS[node.op](builder, node)
        builder.flush()
        builder.release()
        if checks is not None:
            checks.check(node, builder.made[n_before:])
    return builder


def room_for(nodes: Sequence[Node], sizes: Sizes) -> int:
    """More tensors than ``nodes`` need in a step."""
    return sum(PER_NODE * (1 + n_parts(node, sizes)) for node in nodes)


def counted(driver: Driver, node: Node, sizes: Sizes, *, precise: bool = False) -> Builder:
    """A builder that built ``node`` alone and placed nothing."""
    builder = Builder(driver.library, sizes, room_for([node], sizes),
                      lambda weight: driver.format_of(node, weight), precise=precise)
    return lowered(builder, [node])


def scratch_bytes(driver: Driver, node: Node, limits: Limits, *, precise: bool) -> int:
    """Bytes of temporaries of ``node`` in the largest step."""
    sizes = Sizes.largest(limits)
    if not _has_rows(node, sizes):
        return 0
    # The plan's memory may begin anywhere; temporaries are aligned.
    return counted(driver, node, sizes, precise=precise).scratch_bytes + ALIGNMENT


def _has_rows(node: Node, sizes: Sizes) -> bool:
    """Whether the node has anything to do in a step."""
    return all(sizes.of_symbol(size) for value in (*node.inputs, *node.outputs)
               for size in value.shape)
