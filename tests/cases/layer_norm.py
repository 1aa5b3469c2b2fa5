"""Norms with a mean, of rows and of heads, with and without weights and biases, also far from zero.
"""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker

SHAPES = [(1, 2, 2, "wb"), (2, 17, 17, "w"), (3, 64, 64, "wb"), (33, 300, 300, "w"),
          (70, 256, 256, "wb"), (2, 1031, 1031, "wb"), (5, 96, 96, ""), (4, 60, 20, "w"),
          (37, 120, 40, "wb"), (3, 60, 20, "")]
"""Tokens, columns, columns of a group, roles of weights."""


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, group, roles in SHAPES:
        m = Maker(rng, n_tokens)
        symbol = str(rng.choice(["T", "S"]))
        x = rng.standard_normal(m.shape((symbol, n))) + float(rng.normal() * 3)
        size = int(rng.choice([group, n]))
        weights = {role: m.weight(role, size) for role in roles}
        yield m.case("layer_norm", m.input(symbol, n, values=x), weights=weights,
                     attrs={"eps": float(rng.choice([1e-6, 1e-5, 0.1])), "group": group})
