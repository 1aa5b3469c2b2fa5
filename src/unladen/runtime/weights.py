"""Brings weights to their devices: maps them where the device computes on the host's memory, else
copies them. A weight is converted where the device has no kernel for the file's format."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends._host import host, lock
from unladen.backends.base import Backend, Buffer, Placed
from unladen.errors import MemoryLockError
from unladen.graph.graph import TensorKey
from unladen.quants import convert, get, packer_of
from unladen.runtime.loading import Report, fill, fill_packed
from unladen.schedule.needs import Need, NeedKey
from unladen.schedule.options import LoadOptions

log = logging.getLogger("unladen")

TensorData = Callable[[TensorKey], npt.NDArray[np.uint8]]
"""The bytes of a tensor: a view of the mapped file that has it."""


def load(wanted: Sequence[Need], data: TensorData, present: Mapping[NeedKey, Placed] | None = None,
         options: LoadOptions | None = None, *, strict: bool = False) -> dict[NeedKey, Placed]:
    """Allocate and fill the ``wanted`` weights; those that are ``present`` are used as they are.
    Where memory can't be locked, this raises :class:`MemoryLockError` with ``strict``, else it
    warns. Also raises the error of ``data`` for a tensor that it doesn't have."""
    placed: dict[NeedKey, Placed] = {}
    options = options or LoadOptions()
    report = Report(sum(n.nbytes for n in wanted), options.progress)
    locks = options.use_mlock
    for need in wanted:
        there = (present or {}).get(need.key)
        if there is not None:
            placed[need.key] = there
            report.add(need.nbytes)
            continue
        backend = backend_of(need.device.name)
        raw = data(need.weight.key)
        buffer = backend.wrap(need.device, raw) if need.mapped else None
        offset = need.weight.first_row * need.weight.row_bytes
        if buffer is None:
            # Each weight gets its own buffer: devices limit the size of what a kernel may bind.
            buffer, offset = backend.alloc(need.device, need.nbytes, "weights",
                                           need.row_bytes), 0
            _fill(backend, buffer, need, raw)
        if locks and need.device.is_host:
            locks = _lock(buffer, wanted, strict=strict)
        report.add(need.nbytes)
        placed[need.key] = Placed(need.weight, buffer, offset, need.quant)
    return placed


def _lock(buffer: Buffer, wanted: Iterable[Need], *, strict: bool) -> bool:
    """Lock ``buffer`` in memory; False where the system refuses."""
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


def _fill(backend: Backend, buffer: Buffer, need: Need, tensor: npt.NDArray[np.uint8]) -> None:
    weight, is_host = need.weight, need.device.is_host
    if weight.n_cols_of_tensor:
        block = get(weight.quant)
        start = weight.first_col // block.block_size * block.block_bytes
        rows = tensor.reshape(-1, block.row_bytes(weight.n_cols_of_tensor))
        raw = rows[:, start:start + weight.row_bytes]
    else:
        start = weight.first_row * weight.row_bytes
        raw = tensor[start:start + weight.nbytes_in(weight.quant)]
    packer = packer_of(weight.quant, need.quant, weight.shape)
    if packer is None:
        data = convert(weight.quant, need.quant, raw.reshape(-1), weight.shape)
        fill(backend, buffer, data, is_host=is_host)
    else:
        fill_packed(backend, buffer, packer.rows(raw), packer, is_host=is_host)
