"""The generator, the distribution of draws, and that a seed replays them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.random import Generator

from unladen._native import sample as native
from unladen.sample import SamplerChain, SamplingParams
from unladen.sample.rng import Xoshiro256


def test_the_generator_is_the_published_one() -> None:
    rng = Xoshiro256(1234567)
    assert rng._s == [6457827717110365317, 3203168211198807973, 9817491932198370423,
                      4593380528125082431]  # splitmix64's first outputs
    rng._s = [1, 2, 3, 4]
    assert [rng.next() for _ in range(4)] == [11520, 0, 1509978240, 1215971899390074240]


def test_the_native_generator_is_the_same(rng: Generator) -> None:
    for seed in (0, 1, 2**64 - 1, int(rng.integers(2**63))):
        plain, fast = Xoshiro256(seed), native.State(seed)
        assert [plain.next() for _ in range(50)] == [fast.random() for _ in range(50)]


def chi_square_limit(dof: int, z: float = 5.0) -> float:
    """Exceeded with a chance of 3e-7 (z = 5), by the Wilson-Hilferty normal approximation."""
    return float(dof * (1 - 2 / (9 * dof) + z * math.sqrt(2 / (9 * dof))) ** 3)


@pytest.mark.parametrize(("use_native", "n_draws"), [(True, 200_000), (False, 20_000)])
def test_draws_are_distributed_as_softmax(rng: Generator, use_native: bool, n_draws: int) -> None:
    logits = rng.normal(0, 1.5, 60).astype(np.float32)
    logits[rng.integers(0, 60, 8)] = -np.inf
    sampler = SamplerChain().temp(0.8).dist(int(rng.integers(2**32))).build(use_native=use_native)
    counts = np.bincount([sampler.pick(logits) for _ in range(n_draws)], minlength=60)
    p = np.exp(logits.astype(np.float64) / 0.8 - logits.max() / 0.8)
    expected = p / p.sum() * n_draws
    assert counts[logits == -np.inf].sum() == 0
    rare = expected < 10  # together one cell, or none where even that is rare
    cells = [(counts[i], expected[i]) for i in np.flatnonzero(~rare)]
    if expected[rare].sum() >= 10:
        cells.append((counts[rare].sum(), expected[rare].sum()))
    chi_square = sum((c - e) ** 2 / e for c, e in cells)
    assert chi_square < chi_square_limit(len(cells) - 1)


def test_the_same_seed_gives_the_same_tokens_natively_and_in_numpy(rng: Generator) -> None:
    for _ in range(8):
        params = SamplingParams(
            temperature=float(rng.uniform(0.2, 2)), top_k=int(rng.choice([0, 3, 40])),
            top_p=float(rng.choice([0.7, 0.95, 1])), min_p=float(rng.choice([0, 0.05])),
            repeat_penalty=float(rng.choice([1, 1.2])), frequency_penalty=0.1,
            presence_penalty=0.2, penalty_last_n=16, seed=int(rng.integers(2**63)))
        samplers = [params.chain().build(use_native=x) for x in (True, True, False)]
        for sampler in samplers:
            sampler.accept_prompt(range(10))
        rows = rng.normal(0, 2, (60, 2000)).astype(np.float32)
        first, again, plain = ([s.sample(row) for row in rows] for s in samplers)
        assert first == again == plain


def test_without_a_seed_each_sampler_has_its_own_and_it_replays(rng: Generator) -> None:
    logits = rng.normal(0, 0.1, 1000).astype(np.float32)
    one, two = SamplerChain().dist().build(), SamplerChain().dist().build()
    assert one.seed != two.seed
    replay = SamplerChain().dist(one.seed).build()
    override = SamplerChain().dist(5).build(seed=one.seed)
    tokens = [one.sample(logits) for _ in range(20)]
    assert tokens == [replay.sample(logits) for _ in range(20)]
    assert tokens == [override.sample(logits) for _ in range(20)]
    assert tokens != [two.sample(logits) for _ in range(20)]
