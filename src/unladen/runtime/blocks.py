"""Single blocks of a plan's cache as bytes, and back.

The bytes of a block are, for each layer with a cache from the first on, its keys and then its
values, as they lie in the cache: see :class:`~unladen.backends.base.KVLayout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Buffer, PlacedKV
from unladen.errors import InvalidArgument

Bytes = npt.NDArray[np.uint8]

BLOCK_VERSION = 1
"""The version of the order of bytes above, to be written beside blocks that are kept in files."""


def block_bytes(kv: Mapping[int, PlacedKV]) -> int:
    """Bytes of one block in all the layers of ``kv``."""
    return sum(n for _, n in _parts(kv))


def read_block(kv: Mapping[int, PlacedKV], block: int) -> Bytes:
    """A copy of ``block``: uint8 [block_bytes]. Waits for the steps that were run before."""
    # All devices begin to send before the first one is waited for.
    waits = [backend_of(buffer.device.name).fetch(buffer, n, block * n) for buffer, n in _parts(kv)]
    return np.concatenate([np.zeros(0, np.uint8), *(wait().view(np.uint8) for wait in waits)])


def write_block(kv: Mapping[int, PlacedKV], block: int, data: Bytes) -> None:
    """Put ``data``, what :func:`read_block` gave, into ``block``. Raises :class:`InvalidArgument`
    for another number of bytes, before anything is written."""
    if data.size != block_bytes(kv):
        raise InvalidArgument(f"a block of this cache has {block_bytes(kv)} bytes, got {data.size}",
                              hint="write blocks of the same model and types of keys and values")
    at = 0
    for buffer, n in _parts(kv):
        backend_of(buffer.device.name).write(buffer, data[at:at + n], block * n)
        at += n


def _parts(kv: Mapping[int, PlacedKV]) -> Iterator[tuple[Buffer, int]]:
    """Each buffer, in the order of the bytes of a block, and how many of them are its own."""
    for _, placed in sorted(kv.items()):
        for buffer in (placed.k, placed.v):
            yield buffer, buffer.nbytes // placed.layout.n_blocks
