"""Sums over heads of several sizes."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, heads, dim in [(1, 1, 1), (2, 3, 17), (33, 2, 128), (70, 5, 20)]:
        m = Maker(rng, n_tokens)
        yield m.case("head_sum", m.input("T", heads * dim), attrs={"head_dim": dim})
