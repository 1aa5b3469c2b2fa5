"""Parts of heads."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, heads, first, width, group in [(1, 1, 0, 1, 1), (3, 4, 5, 7, 20), (40, 2, 0, 64, 96),
                                                 (70, 1, 17, 3, 20), (9, 5, 32, 32, 64)]:
        m = Maker(rng, n_tokens)
        symbol = str(rng.choice(["T", "S"]))
        yield m.case("columns", m.input(symbol, heads * group),
                     attrs={"first": first, "width": width, "group": group})
