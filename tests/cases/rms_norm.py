"""Norms of whole rows and of each head."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, group in [(1, 1, 1), (2, 17, 17), (3, 64, 16), (5, 96, 8), (34, 300, 100),
                               (70, 256, 256), (2, 1031, 1031)]:
        m = Maker(rng, n_tokens)
        x = m.input(str(rng.choice(["T", "S"])), n)
        yield m.case("rms_norm", x, weights={"w": m.weight("w", group)},
                     attrs={"eps": float(rng.choice([1e-6, 1e-5, 0.1]))})
