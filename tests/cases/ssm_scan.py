"""State spaces with a decay per state (one channel a head) and with one per head."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, heads, channels, state, groups, per_head in [
            (1, 1, 1, 1, 1, True), (1, 70, 1, 16, 1, False), (5, 6, 8, 16, 2, True),
            (33, 4, 5, 37, 4, True), (40, 30, 1, 16, 1, False), (70, 3, 16, 20, 1, True)]:
        m = Maker(rng, n_tokens)
        a = -np.exp(rng.standard_normal((heads, 1 if per_head else state)))
        m.weights["a"] = a.astype(np.float32).reshape(-1).view(np.uint8)
        weights = {"a": m.weight("a", *a.shape), "d": m.weight("d", heads)}
        m.weights["a"] = a.astype(np.float32).reshape(-1).view(np.uint8)
        dt = np.exp(rng.uniform(-4, 1, (n_tokens, heads)))
        yield m.case("ssm_scan", m.input("T", heads * channels), m.input("T", heads, values=dt),
                     m.input("T", groups * state), m.input("T", groups * state), weights=weights,
                     attrs={"n_groups": groups})
