"""Products with a constant."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n in [(1, 1), (3, 17), (65, 96)]:
        m = Maker(rng, n_tokens)
        yield m.case("scale", m.input("T", n), attrs={"s": float(rng.normal())})
    m = Maker(rng, 5)
    yield m.case("scale", m.input("S", 31), attrs={"s": 0.0})
