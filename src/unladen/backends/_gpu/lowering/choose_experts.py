"""Dispatches of :class:`~unladen.graph.ops.choose_experts.ChooseExperts`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._products import PLAIN_KERNELS
from unladen.backends._gpu.lowering.base import Lowering, OpLowering
from unladen.backends._gpu.lowering.moe import MAX_EXPERTS, route
from unladen.backends._gpu.target import ALIGNMENT
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Node
from unladen.types import Limits


class ChooseExperts(OpLowering):
    """The routing of a mixture alone."""

    op = "choose_experts"
    kernels = PLAIN_KERNELS | {"moe_route"}
    features = frozenset({"subgroups"})

    def supports(self, node: Node) -> bool:
        """Up to :data:`MAX_EXPERTS` experts."""
        return node.weights["router"].shape[0] <= MAX_EXPERTS

    def lower(self, low: Lowering, node: Node) -> None:
        places, _ = _scratch(node, low.segment.limits)
        at = {name: low.scratch(*place) for name, place in places.items()}
        route(low, node, 0, 0, at, low.value(node.outputs[0]))

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes of the logits, and of what routing writes besides the numbers."""
        return _scratch(node, limits)[1]


def _scratch(node: Node, limits: Limits) -> tuple[dict[str, tuple[int, int]], int]:
    """Offset and bytes of each array, by name; and the bytes of all."""
    n_tokens = limits.count(node.inputs[0].shape[:-1])
    pairs = n_tokens * node.int_attr("n_used")
    places, at = {}, 0
    for name, n in (("logits", n_tokens * node.weights["router"].shape[0]), ("chosen", pairs),
                    ("weights", pairs)):
        places[name] = at, 4 * n
        at += -(-4 * n // ALIGNMENT) * ALIGNMENT
    return places, at
