"""A matrix for each head, with and without columns that stay."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n_heads, n_out, n_in, rest, quant in [
            (1, 1, 64, 32, 0, "F32"), (3, 2, 40, 96, 8, "F32"), (33, 4, 32, 64, 16, "F16"),
            (1, 3, 96, 32, 4, "Q8_0"), (70, 2, 33, 64, 2, "Q8_0"), (5, 2, 70, 256, 64, "Q4_K")]:
        m = Maker(rng, n_tokens)
        yield m.case("head_linear", m.input("T", n_heads * (n_in + rest)),
                     weights={"w": m.weight("w", n_heads, n_out, n_in, quant=quant)})
