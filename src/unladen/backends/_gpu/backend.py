"""The base class of GPU backends, with the answers that follow from the shared lowering."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import Final

from unladen.backends._gpu.joining import (
    attended,
    attended_bytes,
    normed,
    rounded,
    rounded_bytes,
    rounded_later,
    rounded_later_bytes,
    turned,
    written,
)
from unladen.backends._gpu.lowering import registry
from unladen.backends._gpu.lowering.linear import ROUNDED_BINDINGS
from unladen.backends._gpu.lowering.rms_norm import NORM_QUANTIZE
from unladen.backends._gpu.target import Family, Target
from unladen.backends.base import Backend, BackendOptions, Device
from unladen.graph.graph import Node, Value, Weight
from unladen.quants import file_format, in_tiles
from unladen.types import Limits

FUSIONS: Final = frozenset({"fuse_glu", "fuse_residual", "fuse_rope"})
"""Graph passes whose results the lowerings run; for :attr:`Device.fusions`."""


class GpuBackend(Backend):
    """A backend whose kernels are the texts of :attr:`family`. A subclass for a driver adds
    devices, memory and programs."""

    family: Family
    """The texts that the backend compiles."""

    @abstractmethod
    def gpu(self, device: str) -> Target:
        """The open device called ``device``; raises :class:`BackendNotInitialised`."""

    def supports(self, device: Device, node: Node) -> bool:
        how, state = registry().get(node.op), node.state
        if how is None or not all(map(self.family.has_kernel, how.kernels)):
            return False
        # Kernels read whole words from the cache, and four numbers of a key at a time.
        if state is not None and (state.k_dim % 4 or state.v_dim % 2):
            return False
        if not device.is_pretend and (  # it has no limits
                how.n_bindings(node) > self.gpu(device.name).max_storage_buffers):
            return False
        return how.supports(node)

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        how = registry().get(node.op)
        if how is None:
            return None
        quant = file_format(weight.quant)
        if not (how.reads_blocks(node, weight) and self.family.has_format(quant)):
            return "F32"
        tiles = how.reads_tiles(node, weight) and self._has(device, "mma") and (
            node.op, formats(node)) not in self.gpu(device.name).forgone
        return (tiles and in_tiles(quant, weight.shape)) or quant

    def variant(self, device: Device, node: Node, options: BackendOptions) -> str:
        how, target = registry()[node.op], self.gpu(device.name)
        return ", ".join(sorted(how.features_on(target, formats(node), options)))

    def trial_rows(self, device: Device, node: Node, options: BackendOptions) -> Sequence[int]:
        how, target = registry()[node.op], self.gpu(device.name)
        return how.trial_rows(node, target, how.features_on(target, formats(node), options))

    def forgo_variant(self, device: Device, node: Node) -> None:
        self.gpu(device.name).forgone.add((node.op, formats(node)))

    def stored_bytes(self, device: Device, nodes: Sequence[Node], inner: frozenset[Value],
                     limits: Limits, options: BackendOptions) -> Mapping[Value, int]:
        target = self.gpu(device.name)

        def takes_codes(product: Node, *more: str) -> bool:
            used = registry()["linear"].features_on(target, formats(product), options)
            return used.issuperset(("int_dot", *more)) and all(
                self.family.has_codes(file_format(w.quant)) for w in _matrices(product))

        def takes_few_codes(product: Node) -> bool:
            return takes_codes(product, "mma") and all(
                in_tiles(file_format(w.quant), w.shape) for w in _matrices(product))

        def takes_tiles(product: Node) -> bool:
            kept = (self.weight_format(device, product, w) for w in product.weights.values()
                    if len(w.shape) > 1)
            return takes_codes(product) and all(
                quant is not None and file_format(quant) != quant for quant in kept)

        rounds = (self.family.has_kernel(NORM_QUANTIZE)
                  and target.max_storage_buffers >= ROUNDED_BINDINGS)
        norms = rounded(nodes, inner, takes_codes) if rounds else []
        later = rounded_later(nodes, inner, takes_tiles) if self._has(device, "mma") else []
        by_norms = {value for each in normed(nodes, inner, target) for value in each.passed}
        return {**dict.fromkeys(by_norms.union(turned(nodes, inner)), 0),
                **{y: rounded_bytes(y, target, limits) for y in norms},
                **{y: attended_bytes(y, limits) for y, product in attended(nodes, inner).items()
                   if takes_few_codes(product)},
                **{y: rounded_later_bytes(y, limits) for y in later}}

    def passed_values(self, device: Device, nodes: Sequence[Node], inner: frozenset[Value]
                      ) -> Set[Value]:
        norms = normed(nodes, inner, self.gpu(device.name))
        return {value for found in (written(nodes, inner), norms) for each in found
                for value in each.passed}

    def scratch_bytes(self, device: Device, node: Node, limits: Limits, options: BackendOptions
                      ) -> int:
        how = registry().get(node.op)
        if how is None:
            return 0
        nbytes = how.scratch_bytes(node, limits, options)
        if device.is_pretend:  # it has no features
            return nbytes
        used = how.features_on(self.gpu(device.name), formats(node), options)
        return nbytes + (how.mma_scratch_bytes(node, limits, used) if "mma" in used else 0)

    def _has(self, device: Device, feature: str) -> bool:
        """Whether kernels on ``device`` may use ``feature``; pretended devices have none."""
        return not device.is_pretend and feature in self.gpu(device.name).features


def _matrices(node: Node) -> Sequence[Weight]:
    return [w for w in node.weights.values() if len(w.shape) > 1]


def formats(node: Node) -> frozenset[str]:
    """The formats of the weights of ``node``, those of files."""
    return frozenset(file_format(w.quant) for w in node.weights.values())
