"""A pool that grows under its sequences."""

from __future__ import annotations

import numpy as np

from unladen.cache import BlockPool, CachedSequence

SIZE = 4


def test_what_is_there_stays(rng: np.random.Generator) -> None:
    pool = BlockPool(3, SIZE)
    tokens = rng.integers(0, 9, 50).tolist()
    sequence, idle = (CachedSequence(pool, lambda target, source: None, 3) for _ in range(2))
    assert sequence.reserve(9) and not idle.reserve(1)
    sequence.commit(tokens, 9)
    held = list(sequence.blocks)
    pool.grow(7)
    sequence.widen(7)
    assert (pool.n_blocks, pool.n_available) == (7, 4)
    assert list(sequence.blocks) == held
    assert sequence.reserve(7 * SIZE) and pool.n_available == 0
    assert sorted(sequence.blocks) == list(range(7))
    sequence.commit(tokens, 28)
    other = CachedSequence(pool, lambda target, source: None, 7)
    assert other.attach(tokens[:20]) == 16, "never all of it"
    assert list(other.blocks) == list(sequence.blocks[:4])
    other.release()
    sequence.release()
    assert pool.n_available == 7
