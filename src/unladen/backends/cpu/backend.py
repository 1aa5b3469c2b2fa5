"""The host's processor as a backend. ``compile.py`` turns nodes into native operations."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from unladen._native import cpu as native
from unladen.backends._host import HostMemory, total_host_bytes
from unladen.backends.base import BackendOptions, Device, Program, Segment, device_number
from unladen.backends.cpu import numa
from unladen.backends.cpu.compile import compile_segment, refusal, scratch_bytes
from unladen.backends.cpu.features import isa_level, n_physical_cores, processor_name
from unladen.backends.cpu.joining import joined
from unladen.backends.cpu.moving import Moving
from unladen.errors import Cancelled, InvalidArgument
from unladen.graph.graph import Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.moe import VECTOR_ROLES
from unladen.types import Limits

TILE_ROWS: Final = 64
"""How many rows of a matrix a thread multiplies at a time with many activations. A block of more
rows is a tile by itself."""

FUSIONS: Final = frozenset({"fuse_glu", "fuse_residual", "fuse_rope", "select_early"})
"""Graph passes whose results the kernels run."""


def _threads(options: BackendOptions) -> tuple[int, int]:
    """How many threads run steps of few tokens, and how many run steps of many."""
    # With numa="isolate" there are at most as many threads as the node has cores.
    own_node = numa.placement(options.numa, 1) if options.numa == "isolate" else []
    n_threads = options.n_threads or n_physical_cores(own_node[0] if own_node else None)
    return n_threads, options.n_threads_batch or n_threads


@dataclass(slots=True)
class CpuProgram:
    """A native program, the segment that keeps its memory alive, and the mover of its weights."""

    native: native.Program
    segment: Segment
    moving: Moving


class CpuBackend(HostMemory):
    """The backend of the package. ``cpu:1`` and so on are logical devices on the same cores."""

    name = "cpu"

    def __init__(self) -> None:
        self._level = isa_level()

    def devices(self) -> Sequence[Device]:
        return [self._device(0)]

    def why_none(self) -> str:
        return ""

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        for name in ("n_threads", "n_threads_batch"):
            value = getattr(options, name)
            if value is not None and not 1 <= value <= 255:
                raise InvalidArgument(f"{name}={value} is out of range", hint="1 to 255 threads")
        if options.numa is not None:
            numa.check(options.numa)
        return self._device(number)

    def _device(self, number: int) -> Device:
        return Device(f"cpu:{number}", f"{processor_name()}, {self._level}", total_host_bytes(),
                      is_host=True, fusions=FUSIONS, survives_fork=True, is_deterministic=True)

    def supports(self, device: Device, node: Node) -> bool:
        return not refusal(node, functools.partial(self._formats, device))

    def _formats(self, device: Device, node: Node) -> dict[str, str | None]:
        return {role: self.weight_format(device, node, w) for role, w in node.weights.items()}

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        if len(weight.shape) == 1 or not get_op(node.op).takes_quants or (
                node.op == "moe" and any(node.weights.get(r) is weight for r in VECTOR_ROLES)):
            return "F32"
        return weight.quant if native.has_kernel(self._level, weight.quant) else "F32"

    def scratch_bytes(self, device: Device, node: Node, limits: Limits, options: BackendOptions
                      ) -> int:
        return scratch_bytes(node, max(limits.n_tokens, limits.n_outputs), self._level,
                             functools.partial(self._formats, device), options.precise)

    def stored_bytes(self, device: Device, nodes: Sequence[Node], inner: frozenset[Value],
                     limits: Limits, options: BackendOptions) -> Mapping[Value, int]:
        n_threads = functools.cache(lambda: max(_threads(options)))  # asks the system

        def packed_bytes(reader: Node) -> int | None:
            weight = reader.weights["w0"]
            n_cols = weight.shape[-1]
            quant = self.weight_format(device, reader, weight) or "F32"
            block = native.packed_block(self._level, quant, options.precise)
            # A tile takes whole blocks. With fewer tiles, threads would finish at different times.
            if block > TILE_ROWS and n_cols // block < 8 * n_threads():
                return None
            max_rows = max(limits.n_tokens, limits.n_outputs)
            return native.packed_bytes(self._level, quant, n_cols, max_rows, options.precise)
        return joined(nodes, inner, packed_bytes).nbytes

    def compile(self, segment: Segment) -> Program:
        options = segment.options
        n_threads, n_threads_batch = _threads(options)
        program = native.Program(self._level, n_threads, n_threads_batch,
                                 max(segment.limits.n_tokens, segment.limits.n_outputs),
                                 options.precise, options.deterministic,
                                 numa.placement(options.numa, max(n_threads, n_threads_batch)))
        compile_segment(program, segment)
        moving = Moving(program.interleaving, segment, self._level)
        return CpuProgram(program, segment, moving)

    def run(self, program: Program) -> None:
        assert isinstance(program, CpuProgram)
        batch = program.segment.batch
        if not program.native.run(batch.n_tokens, batch.n_outputs, batch.n_seqs,
                                  "argmax" not in batch.skip, "logits" not in batch.skip):
            raise Cancelled("the step was cancelled")
        program.moving.after_step()

    def cancel(self, program: Program) -> None:
        assert isinstance(program, CpuProgram)
        program.native.cancel()

    def settle(self, program: Program) -> None:
        assert isinstance(program, CpuProgram)
        program.moving.finish()
