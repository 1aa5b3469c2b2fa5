"""Devices, memory and programs, as the plan asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from unladen.backends.base import (
    BackendOptions,
    Buffer,
    Device,
    Program,
    Segment,
    Support,
    Use,
    device_number,
)
from unladen.backends.wgpu import adapters, memory
from unladen.backends.wgpu.attend import attention, attention_scratch, kv_write
from unladen.backends.wgpu.experts import head_linear, moe, moe_scratch
from unladen.backends.wgpu.fetch import fetch
from unladen.backends.wgpu.gpu import Gpu, device_of, shares_host_memory
from unladen.backends.wgpu.lower import SIMPLE, Lower, Lowering
from unladen.backends.wgpu.memory import Bytes, of_gpu
from unladen.backends.wgpu.narrow import argmax, narrow_scratch, top_k
from unladen.backends.wgpu.products import embed, linear, linear_scratch
from unladen.backends.wgpu.program import WgpuProgram
from unladen.backends.wgpu.recurrent import RECURRENT
from unladen.backends.wgpu.source import has_kernel
from unladen.backends.wgpu.streams import STREAMS
from unladen.graph.graph import Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.moe import VECTOR_ROLES
from unladen.types import Limits

LOWERINGS: Mapping[str, Lower] = MappingProxyType({
    **SIMPLE, **RECURRENT, **STREAMS, "embed": embed, "linear": linear, "moe": moe,
    "head_linear": head_linear, "kv_write": kv_write, "attention": attention, "argmax": argmax,
    "top_k": top_k})
"""By op."""
MAX_EXPERTS = 1024


class WgpuBackend:
    """See the package. ``wgpu:0`` is the fastest kind of adapter; numbers beyond the last adapter
    are further logical devices on the same ones."""

    name = "wgpu"
    fusions = frozenset({"fuse_glu", "fuse_residual", "fuse_rope"})
    runs_ahead = True
    survives_fork = False
    is_deterministic = False

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}

    def devices(self) -> Sequence[Device]:
        return [device_of(a, f"wgpu:{i}") for i, a in enumerate(adapters.adapters())]

    def why_none(self) -> str:
        return adapters.why_none()

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        adapters.check_process()
        name = f"wgpu:{number}"
        if name not in self._gpus or self._gpus[name].is_lost:
            self._gpus[name] = Gpu(name, number)
        return self._gpus[name].device

    def gpu(self, device: str) -> Gpu:
        """The GPU behind the name of a device that was opened."""
        return self._gpus[device]

    def free_bytes(self, device: Device) -> int:
        gpu = self.gpu(device.name)
        card = None if shares_host_memory(gpu.adapter) else adapters.card_of(gpu.adapter)
        return gpu.free_bytes() if card is None else card.free_bytes

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        return memory.alloc(self.gpu(device.name), nbytes, row_bytes, use)

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        """No device takes memory back from a buffer that stays."""

    def wrap(self, device: Device, data: Bytes) -> Buffer | None:
        return None

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        memory.write(of_gpu(dst), src, offset)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return memory.read(of_gpu(src), nbytes, offset)

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0) -> Callable[[], Bytes]:
        return fetch(of_gpu(src), nbytes, offset)

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        return memory.copy(of_gpu(dst), dst_offset, of_gpu(src), src_offset, nbytes)

    def supports(self, node: Node) -> Support:
        state = node.state
        if node.op not in LOWERINGS or (state and (state.k_dim % 4 or state.v_dim % 2)):
            return Support.NO
        if node.op == "moe" and not _takes_experts(node):
            return Support.NO
        return Support.YES

    def weight_format(self, node: Node, weight: Weight) -> str | None:
        takes_quants = len(weight.shape) > 1 and get_op(node.op).takes_quants and not (
            node.op == "moe" and any(node.weights.get(r) is weight for r in VECTOR_ROLES))
        return weight.quant if takes_quants and has_kernel(weight.quant) else "F32"

    def variant(self, device: Device, node: Node, options: BackendOptions) -> str:
        return ", ".join(sorted(self.gpu(device.name).used_by(node.op, formats(node), options)))

    def forgo_variant(self, device: Device, node: Node) -> None:
        self.gpu(device.name).forgone.add((node.op, formats(node)))

    def stored_bytes(self, nodes: Sequence[Node], inner: frozenset[Value], limits: Limits,
                     options: BackendOptions) -> Mapping[Value, int]:
        return {}

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        if node.op == "linear":
            return linear_scratch(node, limits, options)
        if node.op == "moe":
            return moe_scratch(node, limits)
        if node.op in ("argmax", "top_k"):
            return narrow_scratch(node, limits)
        return attention_scratch(node, limits) if node.op == "attention" else 0

    def compile(self, segment: Segment) -> Program:
        gpu = self.gpu(segment.device.name)
        program = WgpuProgram(gpu, segment.batch, segment.limits)
        heads = [n.state.n_kv_heads for n in segment.nodes if n.state is not None]
        program.n_kv_heads = min(heads, default=1)
        lowering = Lowering(gpu, segment, program)
        for node in segment.nodes:
            lowering.begin(node)
            LOWERINGS[node.op](lowering, node)
        program.chosen = None if segment.chosen is None else lowering.value(segment.chosen)
        program.finish(lowering.dispatches())
        return program

    def run(self, program: Program) -> None:
        assert isinstance(program, WgpuProgram)
        program.run()

    def cancel(self, program: Program) -> None:
        assert isinstance(program, WgpuProgram)
        program.cancelled = True

    def settle(self, program: Program) -> None:
        """Nothing is put off."""

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()


def _takes_experts(node: Node) -> bool:
    w = node.weights
    alike = "gate" not in w or w["gate"].quant == w["up"].quant
    return alike and w["router"].shape[0] <= MAX_EXPERTS


def formats(node: Node) -> frozenset[str]:
    """Of its weights."""
    return frozenset(w.quant for w in node.weights.values())
