"""Norms with a mean, with and without a bias, also far from zero."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, has_b in [(1, 2, True), (2, 17, False), (3, 64, True), (33, 300, False),
                               (70, 256, True), (2, 1031, True)]:
        m = Maker(rng, n_tokens)
        symbol = str(rng.choice(["T", "S"]))
        x = rng.standard_normal(m.shape((symbol, n))) + float(rng.normal() * 3)
        weights = {"w": m.weight("w", n)} | ({"b": m.weight("b", n)} if has_b else {})
        yield m.case("layer_norm", m.input(symbol, n, values=x), weights=weights,
                     attrs={"eps": float(rng.choice([1e-6, 1e-5, 0.1]))})
