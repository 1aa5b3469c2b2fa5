"""Columns of whole rows and of each group: the first, the last, some in between, all."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, group, first, count in [(1, 8, 8, 0, 8), (3, 17, 17, 16, 1),
                                             (37, 60, 20, 0, 12), (5, 60, 20, 12, 8),
                                             (70, 96, 96, 32, 32)]:
        m = Maker(rng, n_tokens)
        yield m.case("columns", m.input("T", n),
                     attrs={"group": group, "first": first, "count": count})
    m = Maker(rng, 4)
    yield m.case("columns", m.input("T", 12), attrs={"first": 3, "count": 5})
