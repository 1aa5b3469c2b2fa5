"""Sums of two arrays, or of an array and a row."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n in [(1, 1), (3, 17), (40, 64), (70, 100)]:
        m = Maker(rng, n_tokens)
        yield m.case("add", m.input("T", n), m.input("T", n))
        m = Maker(rng, n_tokens)
        yield m.case("add", m.input("T", n), weights={"b": m.weight("b", n)})
    m = Maker(rng, 9)
    yield m.case("add", m.input("S", 33), m.input("S", 33))
