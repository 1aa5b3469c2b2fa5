"""Chains that need only the best candidates choose from those what they choose from all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from unladen.sample import BadLogits, Constraint, SamplerChain, SamplingParams

N_CANDIDATES = 64


def candidates(logits: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-logits, kind="stable")[:k].astype(np.int32)
    return order, logits[order]


def some_logits(rng: Generator) -> np.ndarray:
    n = int(rng.choice([3, N_CANDIDATES, 500, 20_000]))
    logits = rng.normal(0, rng.choice([0.5, 3, 12]), n)
    if rng.random() < 0.5:
        logits = np.round(2 * logits) / 2  # many ties
    logits[rng.random(n) < rng.choice([0, 0.1, 0.9])] = -np.inf
    logits[rng.integers(n)] = 0
    return logits.astype(np.float32)


@pytest.mark.parametrize("use_native", [True, False])
def test_same_tokens(rng: Generator, use_native: bool) -> None:
    for _ in range(150):
        params = SamplingParams(
            temperature=float(rng.choice([0, 0.3, 1, 1.7])), top_k=int(rng.integers(1, 65)),
            top_p=float(rng.choice([0.5, 0.95, 1])), min_p=float(rng.choice([0, 0.05, 0.5])),
            min_keep=int(rng.integers(0, 4)), seed=int(rng.integers(2**50)))
        whole, best = (params.chain().build(params.seed, use_native=use_native) for _ in range(2))
        assert best.n_best == (1 if params.temperature == 0 else params.top_k)
        assert best.is_greedy == (params.temperature == 0)
        for _ in range(3):
            logits = some_logits(rng)
            before = logits.copy()
            ids, values = candidates(logits, N_CANDIDATES)
            assert best.sample_best(ids, values) == whole.sample(logits), (params, len(logits))
            assert np.array_equal(logits, before)


def test_chains_that_look_at_more() -> None:
    for chain in (SamplerChain().temp(0.8).top_k(40), SamplerChain().top_p(0.9).top_k(40),
                  SamplerChain().penalties(64, 1.1).top_k(40), SamplingParams(top_k=0).chain(),
                  SamplingParams(temperature=0, presence_penalty=0.1).chain(),
                  SamplerChain().logit_bias({3: -np.inf}).greedy(), SamplerChain().dist(1)):
        assert chain.build().n_best is None and not chain.build().is_greedy


def test_steps_that_change_nothing_are_passed_over() -> None:
    chain = SamplerChain().penalties().logit_bias({}).temp(1).top_p(1).min_p(0).top_k(0)
    assert chain.greedy().build().is_greedy
    assert chain.top_k(7).dist(1).build().n_best == 7
    only = chain.temp(0).dist(1).build()
    assert only.n_best == 1 and not only.is_greedy


def test_bad_logits() -> None:
    ids = np.arange(3, dtype=np.int32)
    for use_native in (True, False):
        sampler = SamplingParams(seed=1).chain().build(use_native=use_native)
        for bad in ([np.inf, 1, 0], [np.nan, 1, 0], [-np.inf] * 3):
            with pytest.raises(BadLogits):
                sampler.sample_best(ids, np.array(bad, np.float32))


def test_a_constraint_needs_all_logits() -> None:
    """The tokens that it allows may not be among the best."""
    class Last(Constraint):
        def mask(self, out: Any) -> None:
            out[-1] = 1 << 31
    logits = np.zeros(64, np.float32)
    for chain, error in ((SamplerChain(), None), (SamplerChain().top_k(5), BadLogits)):
        sampler = chain.constraint(Last).greedy().build()
        assert sampler.n_best is None and not sampler.is_greedy
        if error is None:
            assert sampler.sample(logits) == 63
        else:
            with pytest.raises(error, match="constraint"):
                sampler.sample(logits)
