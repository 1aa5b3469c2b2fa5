"""Lists the weights that each device needs, and the formats in which it takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unladen.backends import backend_of
from unladen.backends.base import Device
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Node, Weight

log = logging.getLogger("unladen")

FormatOf = Callable[[Device, Node, Weight], str | None]
"""Returns the format in which a device takes a weight for a node; None: it takes the weight in no
format."""


class NeedKey(NamedTuple):
    """The names of device and weight, and the format. Needs with the same key share one copy of the
    weight."""

    device: str
    weight: str
    quant: str


@dataclass(frozen=True, slots=True)
class Need:
    """One weight on one device, in the format ``quant`` that the device takes. ``mapped``: it is
    used where it lies in the mapped file."""

    device: Device
    weight: Weight
    quant: str
    mapped: bool

    @property
    def key(self) -> NeedKey:
        """The key by which needs of different graphs are recognized as the same."""
        return NeedKey(self.device.name, self.weight.name, self.quant)

    @property
    def nbytes(self) -> int:
        """Bytes of the weight on the device, rounded up so that the next weight is aligned."""
        return (self.weight.nbytes_in(self.quant) + 63) // 64 * 64

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, an entry of the first dimension, on the device."""
        return self.weight.nbytes_in(self.quant) // self.weight.shape[0]


def needs_of(device_of: Mapping[Node, Device], *, use_mmap: bool, strict: bool = False,
             quiet: bool = False, format_of: FormatOf | None = None) -> list[Need]:
    """Every weight on every device that reads it, in the format that ``format_of`` tells (None: the
    backends). Raises :class:`UnsupportedOp` where a device takes a weight in no format and, if
    ``strict``, where it takes it in another than the file's. Conversions are reported unless
    ``quiet``."""
    format_of = format_of or _format_of
    found: dict[tuple[str, str], Need] = {}
    converted: dict[tuple[str, str, str], dict[str, Node]] = {}
    for node, device in device_of.items():
        for weight in node.weights.values():
            quant = format_of(device, node, weight)
            if quant is None:
                raise UnsupportedOp(f"{device.name} takes no {weight.quant} weights",
                                    node=node.name, device=device.name,
                                    hint="place the node elsewhere (override_tensor)")
            there = found.get((device.name, weight.name))
            if there is not None and quant == weight.quant:
                continue  # another node needs it converted: all use that
            mapped = (use_mmap and device.is_host and quant == weight.quant
                      and not weight.n_cols_of_tensor and not weight.private)
            found[device.name, weight.name] = Need(device, weight, quant, mapped)
            if quant != weight.quant and len(weight.shape) > 1:
                nodes = converted.setdefault((device.name, weight.quant, quant), {})
                nodes[weight.name] = node
    if not quiet:
        _report(converted, strict=strict)
    return list(found.values())


def distinct(needs: Iterable[Sequence[Need]]) -> list[Need]:
    """The needs of several graphs in order, without repetitions."""
    found: dict[NeedKey, Need] = {}
    for of_one_graph in needs:
        for need in of_one_graph:
            found.setdefault(need.key, need)
    return list(found.values())


def _format_of(device: Device, node: Node, weight: Weight) -> str | None:
    return backend_of(device.name).weight_format(device, node, weight)


def _report(converted: Mapping[tuple[str, str, str], Mapping[str, Node]], *, strict: bool) -> None:
    """Report conversions: one line for each device and each format that its weights are converted
    to."""
    groups: dict[tuple[str, str], dict[str, Mapping[str, Node]]] = {}
    for (device, source, target), by_weight in converted.items():
        groups.setdefault((device, target), {})[source] = by_weight
    for (device, target), by_source in groups.items():
        nodes = [node for by_weight in by_source.values() for node in by_weight.values()]
        ops = ", ".join(sorted({node.op for node in nodes}))
        message = (f"{device} has no kernel for {', '.join(by_source)}: {len(nodes)} tensors are "
                   f"kept as {target} for {ops}")
        hint = "place them elsewhere (override_tensor), or use a file of another type"
        if strict:
            raise UnsupportedOp(message, node=nodes[0].name, device=device, hint=hint)
        log.warning("%s, which takes more memory (hint: %s)", message, hint)
