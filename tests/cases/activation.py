"""Every pointwise function, over the range where it bends and far beyond."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.ops.activation import ACTIVATIONS


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for act in ACTIVATIONS:
        for n_tokens, n in [(1, 5), (2, 16), (37, 83)]:
            m = Maker(rng, n_tokens)
            far = 30 if act != "exp" else 7  # beyond e^88 there is no float32
            x = rng.uniform(-12, 12, (n_tokens, n)) * rng.choice([0.01, 1, far], (n_tokens, 1))
            yield m.case("activation", m.input("T", n, values=x), attrs={"act": act})
