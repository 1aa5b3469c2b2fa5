"""Constraints: masks token by token, applied natively as their definition says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from unladen._native import sample as native
from unladen.errors import InvalidArgument
from unladen.sample import (
    BadLogits,
    Candidates,
    Constraint,
    SamplerChain,
    State,
    Step,
    mask_of,
)
from unladen.sample.constrain.running import RunningConstraint

BANNED = np.float32(-np.inf)


class Scripted(Constraint):
    """Allows bool [n_vocab] ``rows[n]`` as token ``n``, and counts what it is asked."""

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        self.rows, self.n_masks, self.n_rolled_back = rows, 0, 0

    def mask(self, out: Any) -> None:
        assert not out.any() and out.dtype == np.uint32
        self.n_masks += 1
        out[:] = mask_of(self.rows[len(self.tokens)])

    def accept(self, token: int) -> None:
        assert self.rows[len(self.tokens)][token]
        super().accept(token)

    def rollback(self, n: int) -> None:
        assert 1 <= n <= len(self.tokens)
        self.n_rolled_back += n
        super().rollback(n)


class Plain(Step):
    """A step in Python that changes nothing."""

    name = "plain"

    def apply(self, candidates: Candidates, state: State) -> None:
        assert len(candidates.ids)


def random_rows(rng: Generator, n: int, n_vocab: int) -> list[np.ndarray]:
    rows = [rng.random(n_vocab) < rng.choice([0.02, 0.3, 0.9, 1.0]) for _ in range(n)]
    for row in rows:
        row[rng.integers(n_vocab)] = True
    return rows


def test_masks_are_bits(rng: Generator) -> None:
    for n_vocab in (1, 31, 32, 33, 1000):
        allowed = rng.random(n_vocab) < 0.5
        mask = mask_of(allowed)
        assert mask.dtype == np.uint32 and mask.shape == ((n_vocab + 31) // 32,)
        bits = [bool(int(mask[t // 32]) >> t % 32 & 1) for t in range(32 * len(mask))]
        assert bits == allowed.tolist() + [False] * (len(bits) - n_vocab)
    for wrong in (np.ones(3), np.ones((2, 2), bool), [True], None):
        with pytest.raises(InvalidArgument, match=r"bool \[n_vocab\]"):
            mask_of(wrong)  # type: ignore[arg-type]


CHAINS: Sequence[Callable[[SamplerChain], SamplerChain]] = (
    lambda c: c.greedy(), lambda c: c.dist(), lambda c: c.temp(0.7).top_k(5).dist(),
    lambda c: c.top_p(0.8).dist(), lambda c: c.typical_p(0.7).temp_ext(0.8, 0.3).dist(),
    lambda c: c.penalties(8, 1.3, 0.1, 0.1).min_p(0.05).dist(), lambda c: c.mirostat_v2(),
    lambda c: c.step(Plain()).top_n_sigma(1.5).dist())


@pytest.mark.parametrize("ends", CHAINS)
def test_a_constraint_bans_what_it_does_not_allow(rng: Generator, ends: Any) -> None:
    """The same tokens and draws as of logits that are -inf there: natively, by the definition,
    and with a step in Python between."""
    n_vocab, n = int(rng.choice([1, 3, 32, 100, 2000])), 12
    rows, seed = random_rows(rng, n, n_vocab), int(rng.integers(2**31))
    logits = rng.normal(0, 3, (n, n_vocab)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.1] = BANNED
    for row, allowed in zip(logits, rows, strict=True):
        row[np.flatnonzero(allowed)[0]] = 1
    made: list[Scripted] = []

    def make() -> Scripted:
        made.append(Scripted(rows))
        return made[-1]
    first = SamplerChain().constraint(make)
    samplers = [ends(first).build(seed), ends(first).build(seed, use_native=False),
                ends(SamplerChain().step(Plain()).constraint(make)).build(seed)]
    plain = ends(SamplerChain()).build(seed)
    for row, allowed in zip(logits, rows, strict=True):
        before = row.copy()
        expected = plain.sample(np.where(allowed, row, BANNED))
        assert [s.sample(row) for s in samplers] == [expected] * 3
        np.testing.assert_array_equal(row, before)
    assert all(c.n_masks == n == len(c.tokens) for c in made) and len(made) == 3
    assert not any(s.is_native for s in samplers) and all(s.is_constrained for s in samplers)
    assert not plain.is_constrained


def test_two_constraints_at_two_places(rng: Generator) -> None:
    """The second one sees what the three best of the first's are; each follows all tokens."""
    n_vocab, n = 200, 20
    rows = [random_rows(rng, n, n_vocab) for _ in range(2)]
    logits = rng.normal(0, 3, (n, n_vocab)).astype(np.float32)
    chain = SamplerChain().constraint(lambda: Scripted(rows[0])).top_k(3)
    samplers = [chain.constraint(lambda: Scripted(rows[1])).greedy().build(use_native=is_native)
                for is_native in (True, False)]
    for i in range(n):
        best = sorted(np.flatnonzero(rows[0][i]), key=lambda t, i=i: (-logits[i, t], t))[:3]
        rows[1][i][rng.choice(best)] = True
        expected = next(t for t in best if rows[1][i][t])
        assert [s.sample(logits[i]) for s in samplers] == [expected] * 2


def test_native_step(rng: Generator) -> None:
    """What is left, from all of a vocabulary and from some candidates of it."""
    for _ in range(40):
        n_vocab = int(rng.choice([1, 31, 32, 33, 64, 500]))
        allowed = rng.random(n_vocab) < rng.choice([0.05, 0.5, 1.0])
        logits = rng.normal(size=n_vocab).astype(np.float32)
        logits[rng.random(n_vocab) < 0.2] = BANNED
        some = np.flatnonzero(rng.random(n_vocab) < 0.7).astype(np.int32)
        for ids in (None, some):
            values = logits if ids is None else logits[ids]
            wanted = [t for t in range(n_vocab) if allowed[t] and logits[t] > BANNED
                      and (ids is None or t in ids)]
            chain = native.Chain([("constraint", [0])])
            if not wanted:
                with pytest.raises(BadLogits, match="allows none"):
                    chain.run(values, ids, native.State(1), [mask_of(allowed)])
                continue
            _, left, left_logits = chain.run(values, ids, native.State(1), [mask_of(allowed)])
            assert left.tolist() == wanted
            np.testing.assert_array_equal(left_logits, logits[wanted])


def test_native_step_with_masks_that_do_not_fit() -> None:
    chain, state, logits = native.Chain([("constraint", [1])]), native.State(1), np.zeros(
        40, np.float32)
    mask = np.full(2, 2**32 - 1, np.uint32)
    for masks in (None, [], [mask], [mask, mask[:1]]):
        with pytest.raises(ValueError, match="mask"):
            chain.run(logits, None, state, masks)
    assert len(chain.run(logits, None, state, [mask[:1], mask])[1]) == 40
    with pytest.raises(ValueError, match="mask"):  # those of one call are not those of the next
        chain.run(logits, None, state)


@pytest.mark.parametrize("use_native", [True, False])
def test_nothing_allowed(use_native: bool) -> None:
    for rows, logits in (([np.zeros(9, bool)], np.zeros(9, np.float32)),
                         ([np.arange(9) == 3], np.where(np.arange(9) == 3, BANNED, np.float32(0)))):
        constraint = Scripted(rows)
        sampler = SamplerChain().constraint(lambda c=constraint: c).greedy().build(
            use_native=use_native)
        with pytest.raises(BadLogits, match="allows none"):
            sampler.sample(logits)
        assert constraint.tokens == []


def test_the_prompt_is_not_accepted(rng: Generator) -> None:
    made = Scripted(random_rows(rng, 3, 50))
    sampler = SamplerChain().constraint(lambda: made).dist(1).build()
    sampler.accept_prompt([1, 2, 3])
    tokens = [sampler.sample(rng.normal(size=50).astype(np.float32)) for _ in range(2)]
    sampler.accept(third := int(np.flatnonzero(made.rows[2])[0]))
    assert made.tokens == [*tokens, third]


def test_looking_ahead(rng: Generator) -> None:
    """The first token that isn't allowed ends it; nothing is accepted, and no mask is made
    twice while the tokens are as guessed."""
    n_vocab = 60
    for _ in range(30):
        rows = random_rows(rng, 12, n_vocab)
        constraint = Scripted(rows)
        running = RunningConstraint(constraint, 0)
        for _ in range(n_before := int(rng.integers(0, 3))):
            running.accept(int(np.flatnonzero(rows[len(constraint.tokens)])[0]))
        before = list(constraint.tokens)
        draft = [int(rng.choice(np.flatnonzero(row))) for row in rows[n_before:n_before + 6]]
        n = int(rng.integers(0, 7))
        if n < 6:
            rows[n_before + n][draft[n]] = False
        assert running.n_allowed(draft, n_vocab) == n
        assert constraint.tokens == before
        assert constraint.n_rolled_back == min(n, 5)
        n_masks = constraint.n_masks
        assert n_masks == min(n + 1, 6)
        n_right = int(rng.integers(0, n + 1))
        for token in draft[:n_right]:
            np.testing.assert_array_equal(running.ask(n_vocab), mask_of(rows[len(
                constraint.tokens)]))
            running.accept(token)
        np.testing.assert_array_equal(running.ask(n_vocab), mask_of(rows[n_before + n_right]))
        assert constraint.n_masks == n_masks + (n_right == 6)
        if len(others := np.flatnonzero(rows[n_before + n_right])) > 1:
            running.accept(int(next(t for t in others if n_right == 6 or t != draft[n_right])))
            np.testing.assert_array_equal(running.ask(n_vocab),
                                          mask_of(rows[n_before + n_right + 1]))


class Failing(Constraint):
    """Raises from the methods in ``fails`` once two tokens are accepted."""

    fails: tuple[str, ...] = ()

    def mask(self, out: Any) -> None:
        self._maybe("mask")
        out[:] = 2**32 - 1

    def accept(self, token: int) -> None:
        self._maybe("accept")
        self.tokens.append(token)

    def rollback(self, n: int) -> None:
        del self.tokens[-n:]
        if "rollback" in self.fails:
            raise RuntimeError("rollback")

    def _maybe(self, method: str) -> None:
        if method in self.fails and len(self.tokens) == 2:
            raise RuntimeError(method)


@pytest.mark.parametrize(("fails", "n"), [("mask", 2), ("accept", 3)])
def test_what_is_raised_ahead_counts_when_it_is_due(fails: str, n: int) -> None:
    made = Failing()
    made.fails = (fails,)
    sampler = SamplerChain().constraint(lambda: made).greedy().build()
    logits = np.arange(10, dtype=np.float32)
    assert sampler.n_allowed([9, 9, 9, 9], 10) == n and made.tokens == []
    assert [sampler.sample(logits) for _ in range(2)] == [9, 9]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=fails):
            sampler.sample(logits)
    assert made.tokens == [9, 9]


def test_a_rollback_that_fails() -> None:
    made = Failing()
    made.fails = ("rollback",)
    sampler = SamplerChain().constraint(lambda: made).greedy().build()
    assert sampler.n_allowed([9], 10) == 1, "nothing to take back"
    with pytest.raises(RuntimeError, match="rollback"):
        sampler.n_allowed([9, 9], 10)


class OnlyMask:
    def mask(self, out: Any) -> None: ...


class HalfOverridden(Constraint):
    def mask(self, out: Any) -> None: ...

    def accept(self, token: int) -> None: ...


class DuckTyped(OnlyMask):
    def accept(self, token: int) -> None: ...

    def rollback(self, n: int) -> None: ...


@pytest.mark.parametrize(("make", "says"), [
    (OnlyMask, r"OnlyMask lacks accept\(token\), rollback\(n\)"),
    (Constraint, r"Constraint lacks mask\(out\)"), (list, r"list lacks mask\(out\), accept"),
    (lambda: None, "NoneType lacks"), (lambda: DuckTyped, "got the class DuckTyped"),
    (HalfOverridden, "HalfOverridden overrides only one .* not rollback")])
def test_objects_that_are_no_constraints(make: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as caught:
        SamplerChain().constraint(make).build()
    assert caught.value.hint
    SamplerChain().constraint(DuckTyped).build()


def test_what_makes_them() -> None:
    with pytest.raises(InvalidArgument, match="make must be a function"):
        SamplerChain().constraint(DuckTyped())  # type: ignore[arg-type]
    one = DuckTyped()
    chain = SamplerChain().constraint(lambda: one)
    chain.build()
    with pytest.raises(InvalidArgument, match="belongs to another sequence"):
        chain.build()
    assert repr(SamplerChain().add("constraint", DuckTyped)).startswith(
        "SamplerChain -> ConstraintStep(make=<class")
