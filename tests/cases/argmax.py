"""Largest entries: of few and of many, with ties, and rows that have none."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n in [(1, 1), (3, 13), (40, 300), (2, 4096), (3, 4097), (2, 40_000)]:
        m = Maker(rng, n_tokens)
        yield m.case("argmax", m.input("S", n))
        m = Maker(rng, n_tokens)
        x = rng.choice(np.array([-3, -0.0, 0.0, 2, 2.5, -np.inf]), m.shape(("S", n)))
        rows = np.arange(len(x))
        for odd in (np.nan, -np.nan, np.inf, -np.inf, -0.0):
            x[rng.choice(rows), rng.integers(n)] = odd
        x[rng.choice(rows)] = -np.inf
        yield m.case("argmax", m.input("S", n, values=x))
