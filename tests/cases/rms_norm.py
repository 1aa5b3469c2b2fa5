"""Norms of whole rows and of each head, with weights for one, for all, and without."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker

SHAPES = [(1, 1, 1, 1), (2, 17, 17, 17), (3, 64, 16, 16), (5, 96, 8, 24), (34, 300, 100, 300),
          (70, 256, 256, 0), (2, 1031, 1031, 1031), (6, 60, 20, 0)]
"""Tokens, columns, columns of a group, and of the weights; 0: none."""


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, group, n_weights in SHAPES:
        m = Maker(rng, n_tokens)
        x = m.input(str(rng.choice(["T", "S"])), n)
        shape = (n_weights,) if rng.random() < 0.5 else (n_weights // group, group)
        yield m.case("rms_norm", x, weights={"w": m.weight("w", *shape)} if n_weights else {},
                     attrs={"eps": float(rng.choice([1e-6, 1e-5, 0.1])), "group": group})
    m = Maker(rng, 4)
    yield m.case("rms_norm", m.input("T", 48), weights={"w": m.weight("w", 16)},
                 attrs={"eps": 1e-5})
