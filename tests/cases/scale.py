"""Products with a constant, and with or by weights for one or several columns each."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n in [(1, 1), (3, 17), (65, 96)]:
        m = Maker(rng, n_tokens)
        yield m.case("scale", m.input("T", n), attrs={"s": float(rng.normal())})
    for n_tokens, n, size, divide in [(1, 8, 1, False), (5, 96, 96, True), (37, 60, 4, False),
                                      (3, 70, 10, True)]:
        m = Maker(rng, n_tokens)
        yield m.case("scale", m.input("T", n), weights={"w": m.weight("w", size)},
                     attrs={"s": float(rng.normal()), "divide": divide})
    m = Maker(rng, 5)
    yield m.case("scale", m.input("S", 31), attrs={"s": 0.0})
