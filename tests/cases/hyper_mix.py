"""Streams from one place and from several, to one and to several."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, counts, n_out, width in [(1, (1,), 1, 1), (3, (4,), 1, 37), (33, (4, 1), 4, 64),
                                           (70, (2, 1, 3), 5, 20)]:
        m = Maker(rng, n_tokens)
        xs = [m.input("T", n * width) for n in counts]
        w = m.input("T", sum(counts) * n_out)
        yield m.case("hyper_mix", *xs, w, attrs={"width": width})
