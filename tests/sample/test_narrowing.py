"""Steps that look at the whole distribution, against plain statements of what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator

from unladen._native import sample as native
from unladen.errors import InvalidArgument
from unladen.sample import Candidates, SamplerChain, SamplingParams, Step
from unladen.sample.adaptive_p import AdaptiveP
from unladen.sample.dry import Dry
from unladen.sample.dynamic_temperature import DynamicTemperature
from unladen.sample.mirostat import Mirostat, MirostatV2
from unladen.sample.params import defaults
from unladen.sample.state import PythonState
from unladen.sample.top_n_sigma import TopNSigma
from unladen.sample.typical_p import TypicalP
from unladen.sample.xtc import Xtc

Left = dict[int, float]
N_ROUNDS = 40
MARGIN = 1e-5
"""Relative: of probabilities from 40-bit weights and float32 logits up to 32."""


def random_logits(rng: Generator) -> np.ndarray:
    n = int(rng.choice([1, 2, 3, 33, 255, 1000, 4000]))
    logits = rng.normal(0, rng.choice([0.05, 1, 6]), n).astype(np.float32)
    if rng.random() < 0.5:
        logits[rng.random(n) < rng.random()] = -np.inf
        logits[rng.integers(n)] = 1
    return logits


def both(step: Step, logits: np.ndarray, history: list[int] | None = None, seed: int = 7
         ) -> tuple[Left, int | None]:
    """What is left and chosen, the same from the definition and from the native twin."""
    plain, fast = PythonState(seed), native.State(seed)
    for state in (plain, fast):
        state.accept_all(np.array(history or [], np.int32))
    candidates = Candidates.of(logits)
    step.apply(candidates, plain)
    chosen, ids, values = native.Chain([(step.opcode or "", step.packed())]).run(logits, None, fast)
    np.testing.assert_array_equal(ids, candidates.ids)
    np.testing.assert_array_equal(values, candidates.logits)
    assert chosen == (-1 if candidates.chosen is None else candidates.chosen)
    assert plain.random() == fast.random(), "another number of random numbers"
    return dict(zip(ids.tolist(), values.tolist(), strict=True)), candidates.chosen


def probabilities(logits: np.ndarray) -> dict[int, float]:
    x = logits.astype(np.float64)
    p = np.exp(x - x.max())
    return {i: float(q) for i, q in enumerate(p / p.sum()) if logits[i] > -np.inf}


def test_top_n_sigma(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, n = random_logits(rng), float(rng.choice([0, 0.5, 1, 2]))
        left, _ = both(TopNSigma(n), logits)
        x = logits[logits > -np.inf].astype(np.float64)
        least = x.max() - n * x.std() if n else -math.inf
        spread = MARGIN * (1 + abs(x).max())
        for i in np.flatnonzero(logits > -np.inf):
            assert (i in left) == (logits[i] >= least) or abs(logits[i] - least) < spread


def test_typical_p(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits = random_logits(rng)
        p, min_keep = float(rng.choice([0.1, 0.5, 0.9, 1])), int(rng.choice([0, 1, 20]))
        left, _ = both(TypicalP(p, min_keep), logits)
        prob = probabilities(logits)
        if p == 1:
            assert set(left) == set(prob)
            continue
        entropy = -math.fsum(q * math.log(q) for q in prob.values() if q > 0)
        shift = {i: abs(-math.log(q) - entropy) if q > 0 else math.inf for i, q in prob.items()}
        kept = math.fsum(prob[i] for i in left)
        assert kept >= p - MARGIN or len(left) == len(prob)
        worst = max(shift[i] for i in left)
        assert all(shift[i] >= worst - MARGIN * (1 + worst) for i in prob if i not in left)
        if len(left) > max(min_keep, 1):  # without the least typical it would not be enough
            last = max(left, key=lambda i: (shift[i], i))
            assert kept - prob[last] <= p + MARGIN


def test_xtc(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits = random_logits(rng)
        threshold, min_keep = float(rng.choice([0.01, 0.1, 0.3, 0.6])), int(rng.choice([0, 1, 40]))
        left, _ = both(Xtc(1.0, threshold, min_keep), logits)
        prob = probabilities(logits)
        above = sorted((i for i, q in prob.items() if q >= threshold * (1 + MARGIN)),
                       key=lambda i: (-logits[i], i))
        near = [i for i, q in prob.items() if abs(q - threshold) <= threshold * MARGIN]
        dropped = set(prob) - set(left)
        if threshold > 0.5 or len(prob) < 2 or len(prob) - max(len(above) - 1, 0) < min_keep:
            assert not dropped
        elif not near:
            assert dropped == set(above[:-1])


def test_xtc_happens_as_often_as_it_is_told(rng: Generator) -> None:
    logits = np.array([1.0, 1.0, 0.9, -5.0], np.float32)
    state, n = native.State(int(rng.integers(2**32))), 20_000
    chain = native.Chain([("xtc", Xtc(0.3, 0.1).packed())])
    happened = sum(len(chain.run(logits, None, state)[1]) < 4 for _ in range(n))
    assert abs(happened - 0.3 * n) < 5.5 * math.sqrt(n * 0.3 * 0.7)


def test_dynamic_temperature(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits = random_logits(rng)
        t, delta, power = (float(rng.choice(x)) for x in ([0.5, 1, 2], [0.2, 0.5, 2], [0.5, 1, 3]))
        left, _ = both(DynamicTemperature(t, delta, power), logits)
        prob = probabilities(logits)
        if len(prob) < 2:
            continue
        entropy = -math.fsum(q * math.log(q) for q in prob.values() if q > 0)
        low = max(0.0, t - delta)
        found = low + (t + delta - low) * (entropy / math.log(len(prob))) ** power
        if len(left) == 1 < len(prob):
            assert found < 2e-6
            continue
        for i, x in left.items():
            assert x == pytest.approx(float(logits[i]) / found, rel=1e-4, abs=1e-6)


def test_mirostat_v2_keeps_what_is_little_surprising(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, tau = random_logits(rng), float(rng.choice([0.5, 2, 5]))
        left, chosen = both(MirostatV2(tau, 0.1), logits, seed=int(rng.integers(2**32)))
        prob = probabilities(logits)
        for i, q in prob.items():
            surprise = -math.log2(q) if q > 0 else math.inf
            if abs(surprise - 2 * tau) > 1e-3 and len(left) > 1:
                assert (i in left) == (surprise <= 2 * tau)
        assert chosen in left


def test_mirostat_keeps_the_k_best(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, tau = random_logits(rng), float(rng.choice([0.5, 2, 5]))
        left, chosen = both(Mirostat(tau, 0.1), logits, seed=int(rng.integers(2**32)))
        x = np.sort(logits[logits > -np.inf].astype(np.float64))[::-1]
        assert sorted(left.values(), reverse=True) == x[:len(left)].tolist()
        assert chosen in left
        if len(x) < 2 or x[0] == x[:100][-1]:
            continue
        i = np.arange(1, len(x[:100]))
        t, b = np.log((i + 1) / i), -np.diff(x[:100])
        s = (t * b).sum() / (t * t).sum()
        with np.errstate(all="ignore"):
            k = ((s - 1) * 2.0 ** (2 * tau) / (1 - float(len(x)) ** (1 - s))) ** (1 / s)
        if not np.isfinite(k) or abs(k - round(k)) < 1e-6 * k:
            continue
        assert len(left) == min(max(int(k), 1), len(x))


@pytest.mark.parametrize("step", [Mirostat(3.0, 0.2), MirostatV2(3.0, 0.2)])
def test_mirostat_brings_the_surprise_to_its_target(rng: Generator, step: Step) -> None:
    """Among what is left at each draw. The bound moves by eta times the error each time, so errors
    sum to what it moved in all: a few bits, as long as it stays where surprises are."""
    logits = rng.normal(0, 2, 2000).astype(np.float32)  # of about 8 bits
    state, chain = native.State(1), native.Chain([(step.opcode or "", step.packed())])
    drawn = []
    for _ in range(2000):
        chosen, ids, values = chain.run(logits, None, state)
        drawn.append(-math.log2(probabilities(values)[int(np.searchsorted(ids, chosen))]))
    assert abs(np.mean(drawn) - 3.0) < 20 / (0.2 * len(drawn))


@pytest.mark.parametrize("step", [Mirostat(2.0, 0.3), MirostatV2(2.0, 0.3), AdaptiveP(0.4, 0.8)])
def test_choosing_steps_remember_alike(rng: Generator, step: Step) -> None:
    seed = int(rng.integers(2**32))
    samplers = [SamplerChain((step,)).build(seed, use_native=x) for x in (True, False)]
    rows = rng.normal(0, 2, (80, 300)).astype(np.float32)
    fast, plain = ([s.sample(row) for row in rows] for s in samplers)
    assert fast == plain


def test_adaptive_p(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, target = random_logits(rng), float(rng.uniform(0, 1))
        left, _ = both(AdaptiveP(target), logits)
        for i, q in probabilities(logits).items():
            x = abs(q - target) / 0.3
            assert left[i] == pytest.approx(5 - 10 * x * x / (1 + x), rel=1e-4, abs=1e-4)


def naive_dry(step: Dry, history: list[int]) -> dict[int, float]:
    """By substrings of a list: what each token loses."""
    if step.last_n >= 0:
        history = history[max(0, len(history) - step.last_n):]
    begin = 0
    for b in step.breakers:
        for at in range(len(history) - len(b) + 1):
            if tuple(history[at:at + len(b)]) == b:
                begin = max(begin, at + len(b))
    longest: dict[int, int] = {}
    for n in range(step.allowed_length, len(history) - begin + 1):
        tail = history[len(history) - n:]
        for at in range(len(history) - n):
            if history[at:at + n] == tail:
                longest[history[at + n]] = n
    return {token: step.multiplier * step.base ** (n - step.allowed_length)
            for token, n in longest.items() if (token,) not in step.breakers}


def test_dry(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        n_vocab = int(rng.choice([2, 3, 10]))
        history = rng.integers(0, n_vocab, int(rng.choice([0, 1, 3, 20, 60]))).tolist()
        breakers = tuple(tuple(rng.integers(0, n_vocab, int(rng.integers(1, 4))).tolist())
                         for _ in range(int(rng.integers(0, 3))))
        step = Dry(0.8, 1.5, int(rng.integers(1, 4)), int(rng.choice([-1, 0, 10, 100])), breakers)
        logits = rng.normal(size=n_vocab).astype(np.float32)
        left, _ = both(step, logits, history)
        lost = naive_dry(step, history)
        for i, x in left.items():
            assert x == pytest.approx(float(logits[i]) - lost.get(i, 0.0), rel=1e-5, abs=1e-5)


def test_dry_of_a_long_repetition_overflows_nothing() -> None:
    left, _ = both(Dry(2.0, 4.0, 1), np.zeros(3, np.float32), [1] * 500)
    assert left[0] == left[2] == 0
    assert left[1] < -1e37


def names(params: SamplingParams, **more: object) -> list[str]:
    return [step.name for step in params.chain(**more).steps]  # type: ignore[arg-type]


def test_the_default_order() -> None:
    everything = SamplingParams(
        dry_multiplier=1, top_n_sigma=1, typical_p=0.9, xtc_probability=0.1, dynatemp_range=0.1,
        logit_bias={1: 2.0})
    assert names(everything) == [
        "logit_bias", "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p",
        "xtc", "dynamic_temperature", "dist"]
    assert names(SamplingParams()) == ["penalties", "top_k", "top_p", "min_p", "temperature",
                                       "dist"]


def test_what_takes_the_place_of_what() -> None:
    assert names(SamplingParams(mirostat=1)) == ["penalties", "temperature", "mirostat"]
    assert names(SamplingParams(mirostat=2))[-1] == "mirostat_v2"
    assert names(SamplingParams(adaptive_target=0.3))[-1] == "adaptive_p"
    assert names(SamplingParams(temperature=0, dry_multiplier=1)) == ["penalties", "dry", "greedy"]
    assert names(SamplingParams(order=("top_p", "top_k"))) == ["top_p", "top_k", "dist"]
    chain = SamplingParams(ignore_eos=True).chain(eog_ids=[3, 5])
    assert repr(chain.steps[0]) == "LogitBias(bias=((3, -inf), (5, -inf)))"


@pytest.mark.parametrize("wrong", [
    {"typical_p": 2}, {"top_n_sigma": -1}, {"xtc_threshold": 3}, {"dry_base": 0.5},
    {"dry_allowed_length": -1}, {"mirostat": 3}, {"mirostat_tau": math.nan},
    {"adaptive_target": 7}, {"dynatemp_exponent": -1}, {"order": ("top_k", "top_k")},
    {"order": ("sorcery",)}, {"logit_bias": {-1: 2.0}}])
def test_wrong_parameters(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        SamplingParams(**wrong)  # type: ignore[arg-type]


def test_what_a_file_recommends(caplog: pytest.LogCaptureFixture) -> None:
    found = defaults({"general.sampling.temp": 0.6, "general.sampling.top_k": 20,
                      "general.sampling.top_p": 7.0, "general.name": "x",
                      "general.sampling.sequence": "top_k;typ_p;temp"})
    assert found == {"temperature": 0.6, "top_k": 20,
                     "order": ("top_k", "typical_p", "temperature")}
    assert "general.sampling.top_p is left out" in caplog.text


def test_each_step_says_what_it_takes() -> None:
    each: list[Callable[[], SamplerChain]] = [
        lambda: SamplerChain().dry(1.0, breakers=[[1, 2]]), lambda: SamplerChain().xtc(0.5),
        lambda: SamplerChain().typical_p(0.9).top_n_sigma(1.0).temp_ext(0.8, 0.2)]
    for make in each:
        assert eval(repr(make()).partition(" -> ")[2].split(" -> ")[0], {
            "Dry": Dry, "Xtc": Xtc, "TypicalP": TypicalP}) == make().steps[0]
