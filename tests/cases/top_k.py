"""The largest few of rows: all of them, those of one tile, of several, with many ties."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, k in [(1, 1, 1), (3, 13, 13), (40, 300, 7), (2, 2048, 256), (3, 2049, 256),
                           (2, 40_000, 256), (1, 40_000, 40)]:
        m = Maker(rng, n_tokens)
        yield m.case("top_k", m.input("S", n), attrs={"k": k})
        m = Maker(rng, n_tokens)
        x = rng.integers(-20, 20, m.shape(("S", n))) * float(rng.choice([0.1, -0.1]))
        yield m.case("top_k", m.input("S", n, values=x), attrs={"k": k})
