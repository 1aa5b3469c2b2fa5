"""Rows of tables of plain and of block formats, by token and by position."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n, quant in [(1, 1, "F32"), (3, 17, "F16"), (2, 33, "BF16"), (70, 64, "Q8_0"),
                               (33, 96, "Q4_0"), (5, 256, "Q4_K"), (40, 512, "IQ2_XS")]:
        m = Maker(rng, n_tokens)
        which, n_rows = ("tokens", 50) if rng.random() < 0.6 else ("positions", 120)
        m.batch.tokens[:n_tokens] = rng.integers(0, n_rows, n_tokens)
        yield m.case("embed", m.g.inputs[which], weights={"w": m.weight("w", n_rows, n,
                                                                        quant=quant)})
