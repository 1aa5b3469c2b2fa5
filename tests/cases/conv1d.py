"""Convolutions of several lengths, also longer than the step, with and without bias."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.ops.activation import ACTIVATIONS


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, n_taps, has_b in [(1, 1, 2, False), (1, 83, 4, True), (2, 33, 9, True),
                                       (5, 300, 3, False), (40, 64, 4, True), (70, 17, 16, False)]:
        m = Maker(rng, n_tokens)
        weights = {"w": m.weight("w", n, n_taps)} | ({"b": m.weight("b", n)} if has_b else {})
        act = str(rng.choice([a for a in ACTIVATIONS if a not in ("exp", "relu_squared")]))
        yield m.case("conv1d", m.input("T", n), weights=weights, attrs={"act": act})
