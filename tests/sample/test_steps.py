"""Every step, native and NumPy, against a plain statement of what it means."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator

from unladen._native import sample as native
from unladen.sample import Candidates, Step, registry
from unladen.sample.base import weights
from unladen.sample.logit_bias import LogitBias
from unladen.sample.min_p import MinP
from unladen.sample.penalties import Penalties
from unladen.sample.state import PythonState
from unladen.sample.temperature import Temperature
from unladen.sample.top_k import TopK
from unladen.sample.top_p import TopP

Left = dict[int, float]
N_ROUNDS = 60


def random_logits(rng: Generator) -> np.ndarray:
    """Sizes from one token up, sharp and flat, with ties, -inf, zeros of both signs."""
    n = int(rng.choice([1, 2, 3, 17, 255, 256, 257, 1000, 5000]))
    logits = rng.normal(0, rng.choice([0.05, 1, 6]), n).astype(np.float32)
    if rng.random() < 0.5:
        logits = np.round(logits)
    if rng.random() < 0.3:
        logits[rng.random(n) < 0.5] *= 0
    if rng.random() < 0.5:
        logits[rng.random(n) < rng.random()] = -np.inf
        logits[rng.integers(n)] = 1
    return logits


def by_rank(left: Left) -> list[int]:
    return sorted(left, key=lambda token: (-left[token], token))


def apply_both(step: Step, logits: np.ndarray, history: list[int]) -> tuple[Left, Left]:
    """What the NumPy definition and the native twin leave."""
    assert step.opcode is not None
    plain, fast = PythonState(1), native.State(1)
    plain.accept_all(np.array(history, np.int32))
    fast.accept_all(np.array(history, np.int32))
    candidates = Candidates.of(logits)
    step.apply(candidates, plain)
    untouched = logits.copy()
    _, ids, values = native.Chain([(step.opcode, step.packed())]).run(logits, None, fast)
    np.testing.assert_array_equal(logits, untouched)
    assert (np.diff(candidates.ids) > 0).all()
    return (dict(zip(candidates.ids.tolist(), candidates.logits.tolist(), strict=True)),
            dict(zip(ids.tolist(), values.tolist(), strict=True)))


def check(step: Step, logits: np.ndarray, expected: Callable[[Left], Left],
          history: list[int] | None = None) -> None:
    start = {i: float(x) for i, x in enumerate(logits) if x > -math.inf}
    plain, fast = apply_both(step, logits, history or [])
    assert plain == fast, "the native twin differs"
    assert plain == expected(start)


def test_top_k(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, k = random_logits(rng), int(rng.choice([-1, 0, 1, 2, 40, 200, 3000, 10**6]))
        check(TopK(k), logits,
              lambda left, k=k: {t: left[t] for t in (by_rank(left)[:k] if k > 0 else left)})


def test_top_k_of_rising_logits_replaces_its_pick_all_the_way() -> None:
    logits = np.arange(20_000, dtype=np.float32)
    check(TopK(100), logits, lambda left: {t: left[t] for t in range(19_900, 20_000)})


def test_temperature(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, t = random_logits(rng), float(rng.choice([0, 0.3, 0.8, 1, 1.7, 100]))
        if t == 0:
            check(Temperature(t), logits, lambda left: {by_rank(left)[0]: left[by_rank(left)[0]]})
        else:
            check(Temperature(t), logits, lambda left, t=t: {
                i: float(np.float32(x) / np.float32(t)) for i, x in left.items()})


def test_min_p(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, p = random_logits(rng), float(rng.choice([0, 0.01, 0.0523, 0.5, 1]))
        min_keep = int(rng.choice([0, 1, 5, 10_000]))
        plain, fast = apply_both(MinP(p, min_keep), logits, [])
        assert plain == fast
        left = {i: float(x) for i, x in enumerate(logits) if x > -math.inf}
        order = by_rank(left)
        assert sorted(plain) == sorted(order[:len(plain)]), "not the most likely ones"
        ratio = [math.exp(left[t] - left[order[0]]) for t in order]
        bound = 4e-6  # two roundings of float32 numbers up to 32: of ln p and of max + ln p
        if len(plain) < len(left):
            assert ratio[len(plain)] < p * (1 + bound)
        if len(plain) > min_keep:
            assert ratio[len(plain) - 1] >= p * (1 - bound)


def test_top_p(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits, p = random_logits(rng), float(rng.choice([0, 0.3, 0.9, 0.95, 0.999, 1]))
        min_keep = int(rng.choice([0, 1, 5, 300, 10_000]))
        plain, fast = apply_both(TopP(p, min_keep), logits, [])
        assert plain == fast
        left = {i: float(x) for i, x in enumerate(logits) if x > -math.inf}
        order = by_rank(left)
        assert sorted(plain) == sorted(order[:len(plain)]), "not the most likely ones"
        if p == 1:
            assert len(plain) == len(left)
            continue
        total = math.fsum(math.exp(x - left[order[0]]) for x in left.values())
        mass = [math.exp(left[t] - left[order[0]]) / total for t in order]
        bound = 4e-6 + len(left) * 2.0**-40  # of weights(), twice: of a part and of the whole
        assert math.fsum(mass[:len(plain)]) >= p - bound
        if len(plain) > max(min_keep, 1):
            assert math.fsum(mass[:len(plain) - 1]) < p + bound
        else:
            assert len(plain) == min(max(min_keep, 1), len(left))


@pytest.mark.parametrize("last_n", [-1, 0, 1, 7, 64, 1000])
def test_penalties(rng: Generator, last_n: int) -> None:
    f32 = np.float32
    for _ in range(N_ROUNDS // 4):
        logits = random_logits(rng)
        repeat, frequency, presence = (float(rng.choice(x)) for x in (
            [1, 1.1, 0.7], [0, 0.25, -0.3], [0, 0.6, -1]))
        history = rng.integers(0, len(logits) + 3, int(rng.choice([0, 1, 30, 500]))).tolist()

        def expected(left: Left, history: list[int] = history, repeat: float = repeat,
                     frequency: float = frequency, presence: float = presence) -> Left:
            window = history if last_n < 0 else history[max(0, len(history) - last_n):]
            for token, count in Counter(window).items():
                if token in left:
                    x = f32(left[token])
                    x = x / f32(repeat) if x > 0 else x * f32(repeat)
                    left[token] = float(x - (f32(count) * f32(frequency) + f32(presence)))
            return left

        check(Penalties(last_n, repeat, frequency, presence), logits, expected, history)


def test_penalties_follow_a_moving_window(rng: Generator) -> None:
    step, plain, fast = Penalties(5, 1.5, 0.5, 0.25), PythonState(0), native.State(0)
    chain = native.Chain([("penalties", step.packed())])
    logits = rng.normal(size=4).astype(np.float32)
    for token in rng.integers(0, 4, 40).tolist():
        candidates = Candidates.of(logits)
        step.apply(candidates, plain)
        np.testing.assert_array_equal(chain.run(logits, None, fast)[2], candidates.logits)
        plain.accept(token)
        fast.accept(token)
    np.testing.assert_array_equal(fast.recent(7), plain.recent(7))


def test_logit_bias(rng: Generator) -> None:
    for _ in range(N_ROUNDS):
        logits = random_logits(rng)
        tokens = rng.choice(len(logits) + 2, size=min(len(logits), 4), replace=False).tolist()
        bias = {t: float(rng.choice([-math.inf, -2.5, 0.1, 30])) for t in tokens}
        check(LogitBias.of(bias), logits, lambda left, bias=bias: {
            t: float(np.float32(x) + np.float32(bias.get(t, 0))) for t, x in left.items()
            if bias.get(t) != -math.inf})


def test_steps_work_on_what_earlier_steps_left(rng: Generator) -> None:
    steps = [TopK(50), LogitBias(((3, 1.5),)), Temperature(0.7), Penalties(8, 1.3, 0.1, 0.2),
             TopP(0.9), MinP(0.02)]
    for _ in range(N_ROUNDS):
        logits, order = random_logits(rng), rng.permutation(len(steps))
        chosen = [steps[i] for i in order]
        history = np.arange(min(len(logits), 12), dtype=np.int32)
        plain, fast = PythonState(2), native.State(2)
        plain.accept_all(history)
        fast.accept_all(history)
        candidates = Candidates.of(logits)
        for step in chosen:
            step.apply(candidates, plain)
        ops = [(step.opcode or "", step.packed()) for step in chosen]
        _, ids, values = native.Chain(ops).run(logits, None, fast)
        np.testing.assert_array_equal(ids, candidates.ids)
        np.testing.assert_array_equal(values, candidates.logits)


def test_weights_are_softmax_within_their_bound(rng: Generator) -> None:
    logits = -rng.uniform(0, 28, 20_000).astype(np.float32)
    logits[0] = 0
    exact = np.exp(logits.astype(np.float64)) * 2.0**40
    error = np.abs(weights(logits).astype(np.float64) - exact)
    assert (error <= exact * 2e-6 + 0.5).all()


def test_every_opcode_is_a_step_and_the_other_way_round() -> None:
    assert sorted(c.opcode for c in registry().values() if c.opcode) == native.opcodes()
