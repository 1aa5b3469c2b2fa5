"""Rows from outside in place of few and of many tokens' embeddings."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n_rows, width in [(1, 1, 1), (3, 1, 20), (33, 7, 96), (70, 64, 512)]:
        m = Maker(rng, n_tokens, n_rows=n_rows, row_width=width)
        x = m.input("T", width)
        yield m.case("insert_rows", x, *m.g.row_inputs(x))
