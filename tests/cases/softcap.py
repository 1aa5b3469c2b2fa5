"""Caps over small logits, which they leave alone, and large ones."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, cap in [(1, 5, 30.0), (3, 17, 1.0), (37, 83, 50.0)]:
        m = Maker(rng, n_tokens)
        sizes = m.shape(("S", n))
        x = rng.uniform(-1, 1, sizes) * cap * rng.choice([1e-3, 1, 20], (sizes[0], 1))
        yield m.case("softcap", m.input("S", n, values=x), attrs={"cap": cap})
