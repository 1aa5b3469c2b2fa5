"""What blocks of pictures are known by."""

from __future__ import annotations

import numpy as np

from unladen.cache import BlockPool, CachedSequence
from unladen.cache.keys import row_keys

BLOCK = 4


def sequence(pool: BlockPool) -> CachedSequence:
    return CachedSequence(pool, lambda target, source: None, 16)


def test_pictures_share_what_is_the_same(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((3 * BLOCK, 8)).astype(np.float32)
    places = np.stack([np.zeros(3 * BLOCK), np.arange(3 * BLOCK)], axis=1).astype(np.int32)
    other = rows.copy()
    other[2 * BLOCK, 3] = np.nextafter(other[2 * BLOCK, 3], np.float32(9))
    moved = places.copy()
    moved[-1, 1] += 1
    text, question = [5, 6, 7, 8], [9, 10]
    for together, shared in ((False, 3 * BLOCK), (True, BLOCK)):
        first = text + row_keys(rows, places, together=together) + question
        pool = BlockPool(32, BLOCK)
        before = sequence(pool)
        assert before.attach(first) == 0 and before.reserve(len(first))
        before.commit(first, len(first))
        assert min(first) < 0 and len(set(first)) == len(first)
        for changed, n in (((rows, places), 4 * BLOCK), ((other, places), shared),
                           ((rows, moved), 3 * BLOCK if not together else BLOCK),
                           ((rows, places + 7), 4 * BLOCK)):
            again = sequence(pool)
            assert again.attach(text + row_keys(*changed, together=together) + question) == n
            again.release()
