"""Sequences with one set of adapters, with several and with none."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n_sets, ranks in [(1, 1, (1,)), (5, 2, (8, 3)), (40, 3, (16, 64, 4))]:
        m = Maker(rng, n_tokens, n_seqs=5, n_sets=n_sets)
        scales = rng.standard_normal(n_sets * len(ranks))
        yield m.case("adapter_scale", m.input("T", sum(ranks)),
                     attrs={"ranks": ranks, "scales": tuple(scales.tolist())})
