"""Groups with and without the one before, that begin in earlier steps and end in later ones."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, ratio, n_groups, width in [(1, 1, 1, 4), (1, 4, 2, 20), (4, 2, 2, 129),
                                             (33, 4, 2, 64), (70, 4, 2, 8), (70, 16, 1, 130),
                                             (5, 128, 1, 8), (150, 128, 1, 8)]:
        m = Maker(rng, n_tokens, max_history=int(rng.choice([1, 40, 200])))
        x, scores = (m.input("T", n_groups * width) for _ in range(2))
        yield m.case("pool_tokens", x, scores, m.g.inputs["positions"],
                     weights={"place": m.weight("place", ratio, n_groups * width)},
                     attrs={"ratio": ratio, "n_groups": n_groups})
