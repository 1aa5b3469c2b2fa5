"""What changes from step to step."""

from __future__ import annotations

import numpy as np

from unladen.graph.batch import Batch
from unladen.types import Limits


def test_steps_fall_into_few_classes(rng: np.random.Generator) -> None:
    """In each there is room for the largest of its steps."""
    most = int(rng.integers(2, 600))
    batch = Batch.empty(Limits(most, most, most, 1, 1))
    found = set()
    for n in range(1, most + 1):
        for n_seqs in {1, n}:
            batch.n_tokens, batch.n_seqs = n, n_seqs
            found.add(batch.size_class)
            assert n <= batch.size_class.n_tokens <= min(2 * n, most)
            assert batch.size_class.is_decode == (n == n_seqs)
    assert len(found) <= 2 * (most.bit_length() + 1)
