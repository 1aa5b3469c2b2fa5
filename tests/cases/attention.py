"""Attention of several sequences, each with a history, over every cache type."""

from collections.abc import Iterator, Mapping

import numpy as np

from cases.base import Case, Maker
from unladen.graph.graph import Attr, KVSpec
from unladen.graph.ops.attention import WINDOW_KINDS


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield divided(rng, 320)
    for types in [("F32", "F32"), ("F16", "F16"), ("Q8_0", "Q8_0"), ("F16", "Q8_0"),
                  ("Q8_0", "F16")]:
        dims = [32, 64, 96, 128] if "Q8_0" in types else [8, 20, 33, 64, 80, 128]
        for n_tokens, group, n_kv_heads in [(1, 1, 1), (1, 4, 2), (4, 7, 1), (3, 1, 5), (38, 2, 2),
                                            (70, 3, 1)]:
            m = Maker(rng, n_tokens, n_seqs=4, kv_types=types,
                      max_history=int(rng.choice([0, 10, 150])))
            k_dim = int(rng.choice(dims))
            v_dim = k_dim if rng.random() < 0.5 else int(rng.choice(dims))
            spec = KVSpec(0, n_kv_heads, k_dim, v_dim)
            n_heads = group * n_kv_heads
            yield m.case("attention", m.input("T", n_heads * k_dim), state=spec,
                         attrs={"n_heads": n_heads, "scale": k_dim ** -0.5}, kv=m.cache(spec))
    for n_tokens, window, sinks, dim in [(1, 0, True, 32), (3, 1500, False, 32), (1, 0, False, 36)]:
        # Long enough to be divided.
        m = Maker(rng, n_tokens, n_seqs=2, kv_types=("F16", "F16"), max_history=3000)
        spec = KVSpec(0, 1, dim, dim)
        yield m.case("attention", m.input("T", 2 * dim), state=spec, kv=m.cache(spec),
                     weights={"sinks": m.weight("sinks", 2)} if sinks else {},
                     attrs={"n_heads": 2, "scale": dim ** -0.5, "window": window})
    for n_tokens, sinks in [(1, False), (5, True), (40, False), (70, True)]:
        for attrs in scorings(rng):
            # Where later keys are seen they must be in the step; then there is no history.
            history = 0 if attrs.get("causal") is False else int(rng.choice([0, 10, 150]))
            m = Maker(rng, n_tokens, n_seqs=3, kv_types=("F32", "F32"), max_history=history)
            spec = KVSpec(0, 2, 32, 32)
            n_heads = 2 * int(rng.integers(1, 5))
            weights = {"sinks": m.weight("sinks", n_heads)} if sinks else {}
            yield m.case("attention", m.input("T", n_heads * 32), weights=weights, state=spec,
                         attrs={"n_heads": n_heads, "scale": 32 ** -0.5, **attrs},
                         kv=m.cache(spec))


def divided(rng: np.random.Generator, v_dim: int, n_heads: int = 2, n_kv_heads: int = 1, *,
            sinks: bool = False, **attrs: Attr) -> Case:
    """A step of one token of a sequence so long that workgroups share its keys. Where values are
    long, their columns are joined in several turns."""
    m = Maker(rng, 1, n_seqs=1, kv_types=("F16", "F16"), max_history=160)
    m.batch.index[0] = m.batch.sees_to[0] = 159
    m.batch.kv_len[0] = 160
    spec = KVSpec(0, n_kv_heads, 32, v_dim)
    weights = {"sinks": m.weight("sinks", n_heads)} if sinks else {}
    return m.case("attention", m.input("T", n_heads * 32), weights=weights, state=spec,
                  attrs={"n_heads": n_heads, "scale": 32 ** -0.5, **attrs}, kv=m.cache(spec))


def scorings(rng: np.random.Generator) -> Iterator[Mapping[str, Attr]]:
    """Every attribute of :class:`~unladen.graph.ops.attention.Scoring`, alone and together."""
    window = int(rng.choice([1, 3, 16, 64]))
    yield {}
    for kind in WINDOW_KINDS:
        yield {"window": window, "window_kind": kind}
        yield {"window": window, "window_kind": kind, "causal": False}
    yield {"causal": False}
    yield {"spans": True}
    for kind in WINDOW_KINDS:
        yield {"spans": True, "window": window, "window_kind": kind}
    yield {"softcap": float(rng.uniform(1, 50))}
    yield {"alibi": 8.0}
    yield {"softcap": 20.0, "alibi": 4.0, "window": window, "causal": False,
           "window_kind": "symmetric"}
