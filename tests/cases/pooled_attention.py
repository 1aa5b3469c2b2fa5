"""Windows and groups of several sizes, over every cache type."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.graph import KVSpec


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for types in [("F32", "F32"), ("F16", "F16"), ("Q8_0", "Q8_0"), ("F16", "Q8_0")]:
        for n_tokens, ratio, window, n_heads, sinks in [
                (1, 4, 8, 1, True), (1, 128, 16, 5, True), (3, 1, 1, 17, False),
                (40, 4, 32, 8, True), (70, 16, 20, 2, False)]:
            history = 300 if ratio == 1 else int(rng.choice([0, 10, 300]))
            m = Maker(rng, n_tokens, kv_types=types, max_history=history)
            dim = int(rng.choice([32, 64, 96, 128] if "Q8_0" in types else [8, 20, 64, 132]))
            spec = KVSpec(0, 1, dim, dim + int(rng.choice([0, 32])))
            weights = {"sinks": m.weight("sinks", n_heads)} if sinks else {}
            yield m.case("pooled_attention", m.input("T", n_heads * dim), weights=weights,
                         state=spec, kv=m.cache(spec), attrs={
                             "n_heads": n_heads, "scale": dim ** -0.5, "window": window,
                             "ratio": ratio})
