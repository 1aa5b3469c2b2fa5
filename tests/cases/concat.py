"""Arrays side by side."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, sizes in [(1, (1, 1)), (3, (17, 5)), (40, (64, 32, 96)), (70, (100,))]:
        m = Maker(rng, n_tokens)
        yield m.case("concat", *(m.input("T", n) for n in sizes))
    for n_tokens, n_heads, own, shared in [(1, 1, (3,), (2,)), (5, 4, (), (7,)),
                                           (40, 3, (17, 5), (4,)), (70, 5, (2, 3), ())]:
        m = Maker(rng, n_tokens)
        xs = [m.input("T", n_heads * n) for n in own] + [m.input("T", n) for n in shared]
        yield m.case("concat", *xs, attrs={"n_heads": n_heads, "n_shared": len(shared)})
    m = Maker(rng, 9)
    yield m.case("concat", m.input("S", 33), m.input("S", 1), m.input("S", 2))
