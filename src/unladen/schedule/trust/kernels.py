"""Says which nodes each device runs, and in which formats: the backend's answer, confirmed by a
trial of the kernels."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device, KVLayout
from unladen.errors import OutOfMemory, UnsupportedOp
from unladen.graph.graph import Node, Value, Weight
from unladen.schedule.trust.probe import Sample, fault

log = logging.getLogger("unladen")

Formats = Mapping[str, str | None]
"""The format of each weight by its role; None: the device takes that weight in no format."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of any device for the nodes of one graph.

    A kernel that computes wrong results on this very device is not used: its weights are converted
    to F32, or the node runs elsewhere. That is reported once; with ``strict`` it raises
    :class:`UnsupportedOp`. Without ``probe``, no kernel is tried.
    """

    batch_inputs: Mapping[Value, str]
    layout: KVLayout
    options: BackendOptions
    strict: bool = False
    probe: bool = True
    _reported: set[str] = field(default_factory=set)
    _known: dict[tuple[str, Node], Formats | None] = field(default_factory=dict)

    def runs(self, device: Device, node: Node) -> bool:
        """Whether ``device`` can compute ``node``."""
        return self._formats(device, node) is not None

    def could_take(self, device: Device, node: Node) -> bool:
        """Whether ``device`` can compute ``node``, which may run elsewhere as well. So the answer
        is no, and is not remembered, where the memory doesn't suffice to try the kernel."""
        try:
            return self.runs(device, node)
        except OutOfMemory:
            if device.name not in self._reported:
                self._reported.add(device.name)
                log.warning("%s has too little free memory to try a kernel: it takes no work from "
                            "other devices (hint: close other programs that use it)", device.name)
            return False

    def format_of(self, device: Device, node: Node, weight: Weight) -> str | None:
        """The format in which ``device`` takes ``weight`` for ``node``; None: in no format."""
        formats = self._formats(device, node) or {}
        return next((f for role, f in formats.items() if node.weights[role] == weight), None)

    def as_placed(self, device: Device, node: Node) -> Node:
        """``node`` with its weights in the formats that they have on ``device``."""
        formats = self._formats(device, node) or {}
        return replace(node, weights={role: replace(w, quant=formats.get(role) or w.quant)
                                      for role, w in node.weights.items()})

    def _formats(self, device: Device, node: Node) -> Formats | None:
        key = device.name, node
        if key not in self._known:
            self._known[key] = self._find(device, node)
        return self._known[key]

    def _find(self, device: Device, node: Node) -> Formats | None:
        backend = backend_of(device.name)
        if not backend.supports(device, node):
            return None
        native = {role: backend.weight_format(device, node, w) for role, w in node.weights.items()}
        if device.is_pretend or not self.probe or None in native.values():
            return native
        plain = replace(node, weights={role: replace(w, quant="F32") if len(w.shape) > 1 else w
                                       for role, w in node.weights.items()})
        unpacked = {role: backend.weight_format(device, plain, w)
                    for role, w in plain.weights.items()}
        for formats in (native, unpacked):
            if self._is_sound(device, node, {r: str(f) for r, f in formats.items()}):
                return formats
        return None

    def _is_sound(self, device: Device, node: Node, formats: dict[str, str]) -> bool:
        """Whether ``device`` has sound kernels. Where the kernels that use more of the hardware
        aren't sound, the device uses its plain kernels from now on."""
        as_placed = replace(node, weights={role: replace(w, quant=formats[role])
                                           for role, w in node.weights.items()})
        backend = backend_of(device.name)
        sample = Sample.of(node, formats, dict(self.batch_inputs), self.layout,
                           backend.trial_rows(device, as_placed, self.options))
        while True:
            n_tried = fault.cache_info().misses
            variant = backend.variant(device, as_placed, self.options)
            what = fault(device, self.options, sample, variant)
            if what is None:
                return True
            self._report(device, as_placed, variant, what,
                         is_new=fault.cache_info().misses > n_tried)
            if not variant:
                return False
            backend.forgo_variant(device, as_placed)

    def _report(self, device: Device, node: Node, variant: str, what: str, *, is_new: bool) -> None:
        types = sorted({w.quant for w in node.weights.values() if len(w.shape) > 1})
        if node.state is not None:
            types += [f"a {self.layout.k_type} and {self.layout.v_type} cache"]
        where = f"{device.name} computes {node.op} wrongly" + (
            f" with {', '.join(types)}" if types else "") + (f" by {variant}" if variant else "")
        mend = ("report it with what unladen doctor says" if device.is_host
                else f"update the driver of {device.name}")
        hint = f"{mend}; UNLADEN_PROBE=0 uses the kernel nevertheless"
        if self.strict:
            raise UnsupportedOp(f"{where}: {what}", node=node.name, device=device.name, hint=hint)
        if is_new and where not in self._reported:
            self._reported.add(where)
            instead = "plain kernels are used" if variant else "it isn't used there"
            log.warning("%s: %s; %s (hint: %s)", where, what, instead, hint)
