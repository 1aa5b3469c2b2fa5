"""Brings weights to their devices: mapped where the device computes on the host's memory, else
copied, and converted where it has no kernel for the file's format."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends._host import host, lock
from unladen.backends.base import Buffer, Device, Placed
from unladen.errors import MemoryLockError, UnsupportedOp
from unladen.graph.graph import Node, Weight
from unladen.quants import dequantize, get, quantize
from unladen.schedule.loading import LoadOptions, Report, fill

log = logging.getLogger("unladen")

TensorData = Callable[[str], npt.NDArray[np.uint8]]
"""The bytes of a tensor by name: a view of the mapped file."""


FormatOf = Callable[[Device, Node, Weight], str | None]
"""The format in which a device takes a weight for a node."""


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

    @property
    def row_bytes(self) -> int:
        """Bytes of an entry of the first dimension there."""
        return self.weight.nbytes_in(self.quant) // self.weight.shape[0]


def needs(device_of: Mapping[Node, Device], *, use_mmap: bool, strict: bool = False,
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
                continue  # another node may have got it converted
            mapped = (use_mmap and device.is_host and quant == weight.quant
                      and not weight.n_cols_of_tensor)
            found[device.name, weight.name] = Need(device, weight, quant, mapped)
            if quant != weight.quant and len(weight.shape) > 1:
                nodes = converted.setdefault((device.name, weight.quant, quant), {})
                nodes[weight.name] = node
    if not quiet:
        _report(converted, strict=strict)
    return list(found.values())


def _format_of(device: Device, node: Node, weight: Weight) -> str | None:
    return backend_of(device.name).weight_format(node, weight)


def load(wanted: Sequence[Need], data: TensorData,
         present: Mapping[tuple[str, str], Placed] | None = None,
         options: LoadOptions | None = None, *, strict: bool = False
         ) -> dict[tuple[str, str], Placed]:
    """Allocate and fill; by (device name, weight name). What is ``present`` is used as it is.
    Raises :class:`MemoryLockError` where memory can't be locked, if ``strict``; otherwise that is
    a warning."""
    placed: dict[tuple[str, str], Placed] = {}
    options = options or LoadOptions()
    report = Report(sum(n.nbytes for n in wanted), options.progress)
    locks = options.use_mlock
    for need in wanted:
        there = (present or {}).get((need.device.name, need.weight.name))
        if there is not None and there.quant == need.quant:
            placed[need.device.name, need.weight.name] = there
            report.add(need.nbytes)
            continue
        backend = backend_of(need.device.name)
        raw = data(need.weight.tensor)
        buffer = backend.wrap(need.device, raw) if need.mapped else None
        offset = need.weight.first_row * need.weight.row_bytes
        if buffer is None:
            # One buffer each: devices limit what a kernel may bind, and no weight is cut by it.
            buffer, offset = backend.alloc(need.device, need.nbytes, "weights",
                                           need.row_bytes), 0
            fill(backend, buffer, _bytes(need, raw), is_host=need.device.is_host)
        if locks and need.device.is_host:
            locks = _lock(buffer, wanted, strict=strict)
        report.add(need.nbytes)
        placed[need.device.name, need.weight.name] = Placed(need.weight, buffer, offset, need.quant)
    return placed


def _lock(buffer: Buffer, wanted: Iterable[Need], *, strict: bool) -> bool:
    """Whether that went well."""
    try:
        lock(host(buffer).data)
    except MemoryLockError as error:
        n = sum(need.nbytes for need in wanted if need.device.is_host)
        limit = "" if error.limit is None else f", the limit is {error.limit} (RLIMIT_MEMLOCK)"
        message = f"{n} bytes of weights can't be locked in memory: {error.message}{limit}"
        hint = (f"allow more (ulimit -l {-(-n // 1024)}, LimitMEMLOCK= in a systemd unit, --ulimit "
                "memlock=-1 of a container), or load without use_mlock")
        if strict:
            raise MemoryLockError(message, requested=n, limit=error.limit, hint=hint) from None
        log.warning("%s (hint: %s)", message, hint)
        return False
    return True


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


def _report(converted: Mapping[tuple[str, str, str], Mapping[str, Node]], *, strict: bool) -> None:
    """One line for each device and format that its weights are converted to."""
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
