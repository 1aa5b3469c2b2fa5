"""Gated units with every pointwise function."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.ops.activation import ACTIVATIONS


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for act in ACTIVATIONS:
        for n_tokens, n in [(1, 3), (2, 48), (41, 71)]:
            m = Maker(rng, n_tokens)
            far = 30 if act != "exp" else 6  # beyond e^88 there is no float32
            gate = rng.uniform(-12, 12, (n_tokens, n)) * rng.choice([0.01, 1, far], (n_tokens, 1))
            yield m.case("glu", m.input("T", n, values=gate), m.input("T", n), attrs={"act": act})
    for n_tokens, n, each in [(1, 3, 5), (7, 1, 83), (40, 9, 16)]:
        m = Maker(rng, n_tokens)
        yield m.case("glu", m.input("T", n), m.input("T", n * each), attrs={"act": "sigmoid"})
    for n_tokens, n in [(1, 9), (30, 64)]:
        m = Maker(rng, n_tokens)
        yield m.case("glu", m.input("T", n), m.input("T", n),
                     attrs={"act": "gelu_quick", "limit": 0.8, "up_offset": 1.0})
    m = Maker(rng, 9)
    yield m.case("glu", m.input("T", 33), m.input("T", 33),
                 attrs={"act": "silu", "limit": 0.8, "gate_limit": 1.25})
