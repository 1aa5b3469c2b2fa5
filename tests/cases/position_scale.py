"""Temperatures of near and far positions."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, length, offset in [(1, 7, 0), (40, 5, 1), (9, 8192, 1)]:
        m = Maker(rng, n_tokens)
        yield m.case("position_scale", m.g.inputs["positions"],
                     attrs={"scale": 0.1, "length": length, "offset": offset})
