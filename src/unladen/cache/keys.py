"""What blocks of the cache are known by where a caller brings embeddings instead of tokens."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def row_keys(rows: npt.NDArray[np.float32], positions: npt.NDArray[np.int32], *,
             together: bool) -> list[int]:
    """A number for each of ``rows`` f32 [n, n_embd] at ``positions`` i32 [n, n_axes], to stand in
    place of a token where a :class:`~unladen.cache.CachedSequence` wants tokens.

    The numbers are negative, so none is a token. They follow from every bit of the row, from how
    its position lies to that of the first row, and where tokens see one another (``together``) from
    all the rows: two pictures share a prefix only where their keys and values are the same.
    """
    steps = np.ascontiguousarray(positions - positions[:1], np.int32).reshape(len(rows), -1)
    whole = hashlib.blake2b(rows.tobytes() + steps.tobytes(), digest_size=16).digest()
    return [-1 - int.from_bytes(hashlib.blake2b(
        row.tobytes() + step.tobytes() + (whole if together else b""), digest_size=16).digest(),
        "little") for row, step in zip(rows, steps, strict=True)]
