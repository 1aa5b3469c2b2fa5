"""Brings weights to their devices: mapped where the device computes on the host's memory, else
copied, and converted where it has no kernel for the file's format."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Device, Placed
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Node, Weight
from unladen.quants import dequantize, get, quantize

log = logging.getLogger("unladen")

TensorData = Callable[[str], npt.NDArray[np.uint8]]
"""The bytes of a tensor by name: a view of the mapped file."""


@dataclass(frozen=True, slots=True)
class Need:
    """One weight on one device, in the format that the device takes."""

    device: Device
    weight: Weight
    quant: str
    mapped: bool

    @property
    def nbytes(self) -> int:
        """Its size there, rounded up so that the next one is aligned."""
        return (self.weight.nbytes_in(self.quant) + 63) // 64 * 64


def needs(device_of: Mapping[Node, Device], *, use_mmap: bool, quiet: bool = False) -> list[Need]:
    """Every weight on every device that reads it; raises :class:`UnsupportedOp` where a device
    takes a weight in no format. Conversions are reported unless ``quiet``."""
    found: dict[tuple[str, str], Need] = {}
    for node, device in device_of.items():
        for weight in node.weights.values():
            quant = backend_of(device.name).weight_format(node, weight)
            if quant is None:
                raise UnsupportedOp(f"{device.name} takes no {weight.quant} weights",
                                    node=node.name, device=device.name,
                                    hint="place the node elsewhere (override_tensor)")
            mapped = (use_mmap and device.is_host and quant == weight.quant
                      and not weight.n_cols_of_tensor)
            found[device.name, weight.name] = Need(device, weight, quant, mapped)
    if not quiet:
        _report_converted(found.values())
    return list(found.values())


def load(wanted: Iterable[Need], data: TensorData) -> dict[tuple[str, str], Placed]:
    """Allocate and fill; by (device name, weight name)."""
    placed: dict[tuple[str, str], Placed] = {}
    for need in wanted:
        backend = backend_of(need.device.name)
        raw = data(need.weight.tensor)
        buffer = backend.wrap(need.device, raw) if need.mapped else None
        offset = need.weight.first_row * need.weight.row_bytes
        if buffer is None:
            # One buffer each: devices limit what a kernel may bind, and no weight is cut by it.
            buffer, offset = backend.alloc(need.device, need.nbytes, "weights"), 0
            backend.write(buffer, _bytes(need, raw))
        placed[need.device.name, need.weight.name] = Placed(need.weight, buffer, offset, need.quant)
    return placed


def _bytes(need: Need, tensor: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    weight = need.weight
    if weight.n_cols_of_tensor:
        block = get(weight.quant)
        start = weight.first_col // block.block_size * block.block_bytes
        rows = tensor.reshape(-1, block.row_bytes(weight.n_cols_of_tensor))
        raw = rows[:, start:start + weight.row_bytes].reshape(-1)
    else:
        start = weight.first_row * weight.row_bytes
        raw = tensor[start:start + weight.nbytes_in(weight.quant)]
    if need.quant == weight.quant:
        return raw
    values = dequantize(weight.quant, raw, weight.shape)
    return quantize(need.quant, values).reshape(-1)


def _report_converted(wanted: Iterable[Need]) -> None:
    converted: dict[tuple[str, str, str], int] = {}
    for need in wanted:
        if need.quant != need.weight.quant and len(need.weight.shape) > 1:
            key = (need.device.name, need.weight.quant, need.quant)
            converted[key] = converted.get(key, 0) + 1
    for (device, source, target), n in converted.items():
        log.warning("%s has no kernel for %s: %d tensors are kept as %s, which takes more memory",
                    device, source, n, target)
