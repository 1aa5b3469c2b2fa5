"""Rows whose logits are wanted."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n in [(1, 1), (4, 13), (33, 64), (70, 129)]:
        m = Maker(rng, n_tokens)
        yield m.case("select_rows", m.input("T", n), m.g.inputs["out_rows"])
