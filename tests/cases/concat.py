"""Arrays side by side."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, sizes in [(1, (1, 1)), (3, (17, 5)), (40, (64, 32, 96)), (70, (100,))]:
        m = Maker(rng, n_tokens)
        yield m.case("concat", *(m.input("T", n) for n in sizes))
    m = Maker(rng, 9)
    yield m.case("concat", m.input("S", 33), m.input("S", 1), m.input("S", 2))
