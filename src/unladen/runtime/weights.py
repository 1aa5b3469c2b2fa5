"""Brings weights to their devices: mapped where the device computes on the host's memory, else
copied, and converted where it has no kernel for the file's format."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends._host import host, lock
from unladen.backends.base import Buffer, Placed
from unladen.errors import MemoryLockError
from unladen.quants import dequantize, get, quantize
from unladen.runtime.loading import Report, fill
from unladen.schedule.needs import Need
from unladen.schedule.options import LoadOptions

log = logging.getLogger("unladen")

TensorData = Callable[[str], npt.NDArray[np.uint8]]
"""The bytes of a tensor by name: a view of the mapped file."""


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
