"""Weights for what goes in, for what comes out too, and for what stays too."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, n_kinds, n_rounds in [(1, 2, 1, 1), (5, 4, 2, 1), (1, 4, 3, 20), (70, 4, 3, 1),
                                           (33, 3, 3, 2), (3, 16, 3, 5)]:
        m = Maker(rng, n_tokens)
        n_cols = (n, 2 * n, (2 + n) * n)[n_kinds - 1]
        attrs = {"n_streams": n, "n_rounds": n_rounds, "eps": float(rng.choice([1e-6, 1e-2])),
                 "magnitude": float(rng.uniform(1, 3)), "out_eps": float(rng.choice([0, 1e-3]))}
        weights = {"scale": m.weight("scale", n_kinds), "base": m.weight("base", n_cols)}
        yield m.case("hyper_weights", m.input("T", n_cols), weights=weights, attrs=attrs)
