"""Clamping, so that some is cut off and some isn't."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, limit in [(1, 5, 0.7), (3, 17, 1.0), (40, 64, 0.0), (37, 83, 8.0)]:
        m = Maker(rng, n_tokens)
        yield m.case("clamp", m.input("T", n), attrs={"limit": limit})
