"""Factors and summands, one for each column and one for several."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, each, roles in [(1, 1, 1, "wb"), (3, 17, 1, "w"), (40, 64, 8, "b"),
                                     (70, 20, 5, "wb"), (9, 33, 33, "w")]:
        m = Maker(rng, n_tokens)
        symbol = str(rng.choice(["T", "S"]))
        yield m.case("affine", m.input(symbol, n),
                     weights={role: m.weight(role, n // each) for role in roles})
