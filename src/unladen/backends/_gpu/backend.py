"""The answers of a GPU backend that follow from the shared dispatch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from unladen.backends._gpu.lowering import registry
from unladen.backends._gpu.target import Family, Target
from unladen.backends.base import Backend, BackendOptions, Device, Support
from unladen.graph.graph import Node, Value, Weight
from unladen.types import Limits


class GpuBackend(Backend):
    """A backend whose kernels are texts of :attr:`family`. A driver adds devices, memory and
    programs."""

    family: Family
    """The texts that the backend compiles."""
    fusions = frozenset({"fuse_glu", "fuse_residual", "fuse_rope"})

    @abstractmethod
    def gpu(self, device: str) -> Target:
        """The device called ``device``, which was opened."""

    def supports(self, node: Node) -> Support:
        how, state = registry().get(node.op), node.state
        if how is None or not all(map(self.family.has_kernel, how.kernels)):
            return Support.NO
        # Kernels read rows of the cache by whole words, keys four numbers at a time.
        if state is not None and (state.k_dim % 4 or state.v_dim % 2):
            return Support.NO
        return Support.YES if how.supports(node) else Support.NO

    def weight_format(self, node: Node, weight: Weight) -> str | None:
        how = registry().get(node.op)
        if how is None:
            return None
        as_is = how.reads_blocks(node, weight) and self.family.has_format(weight.quant)
        return weight.quant if as_is else "F32"

    def variant(self, device: Device, node: Node, options: BackendOptions) -> str:
        how, target = registry()[node.op], self.gpu(device.name)
        return ", ".join(sorted(how.features_on(target, formats(node), options)))

    def forgo_variant(self, device: Device, node: Node) -> None:
        self.gpu(device.name).forgone.add((node.op, formats(node)))

    def stored_bytes(self, nodes: Sequence[Node], inner: frozenset[Value], limits: Limits,
                     options: BackendOptions) -> Mapping[Value, int]:
        return {}

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        how = registry().get(node.op)
        return 0 if how is None else how.scratch_bytes(node, limits, options)


def formats(node: Node) -> frozenset[str]:
    """Formats of the node's weights."""
    return frozenset(w.quant for w in node.weights.values())
