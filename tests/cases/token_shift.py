"""Rows moved down by one, in sequences with and without a past."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n in [(1, 1), (2, 17), (40, 64), (70, 100)]:
        m = Maker(rng, n_tokens)
        yield m.case("token_shift", m.input("T", n))
