"""Checks that every number of a file's tensors is finite."""

from __future__ import annotations

from typing import Final

import numpy as np

from unladen.errors import GGUFError
from unladen.gguf.reader import GGUFFile
from unladen.gguf.tensors import TensorInfo
from unladen.quants import dequantize, get

_AT_ONCE: Final = 1 << 20
"""Numbers to check at once: limits the memory for their float32 values to 4 MiB."""


def check_numbers(file: GGUFFile) -> None:
    """Raise :class:`GGUFError` at the first number that is NaN or infinite.

    The error names the tensor and the block; its ``offset`` is the block's first byte. This reads
    the whole file.
    """
    for tensor in file.tensors.values():
        block = _first_bad_block(tensor)
        if block is not None:
            quant = get(tensor.quant)
            raise GGUFError(
                f"{tensor.name} ({tensor.quant}) holds NaN or infinity in block {block} of "
                f"{tensor.nbytes // quant.block_bytes}", path=file.paths[tensor.file_index],
                offset=tensor.offset + block * quant.block_bytes,
                hint="the file is damaged or was converted wrongly: fetch another")


def _first_bad_block(tensor: TensorInfo) -> int | None:
    quant, data = get(tensor.quant), tensor.data
    step = max(1, _AT_ONCE // quant.block_size)
    for first in range(0, tensor.nbytes // quant.block_bytes, step):
        raw = data[first * quant.block_bytes:(first + step) * quant.block_bytes]
        n_blocks = raw.size // quant.block_bytes
        with np.errstate(all="ignore"):  # what overflows is found below
            values = dequantize(tensor.quant, raw, (n_blocks, quant.block_size))
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            return first + int(bad.argmax())
    return None
