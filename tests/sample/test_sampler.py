"""The chain as users see it: building, errors, many rows, log-probabilities, plug-ins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import Generator

from unladen.discover import PLUGIN_PATH
from unladen.errors import InvalidArgument
from unladen.sample import (
    BadLogits,
    Candidates,
    Sampler,
    SamplerChain,
    SamplingParams,
    State,
    Step,
    logprobs,
    registry,
    sample_rows,
)
from unladen.sample.chain import found
from unladen.sample.dist import Dist
from unladen.sample.greedy import Greedy

BOTH = pytest.mark.parametrize("use_native", [True, False])
CHAINS = {
    "greedy": SamplerChain().greedy(),
    "default": SamplingParams().chain(),
    "dist": SamplerChain().temp(0.7).dist(1),
    "top_p": SamplerChain().top_p(0.9),
    "penalties": SamplerChain().penalties(8, 1.2).min_p(0.1),
}


@dataclass(frozen=True)
class EvenOnly(Step):
    """Drops odd ids, in NumPy alone."""

    name: ClassVar[str] = "even_only"

    def apply(self, candidates: Candidates, state: State) -> None:
        """Keep even ids."""
        candidates.keep(candidates.ids % 2 == 0)


@BOTH
def test_greedy_takes_the_lowest_id_of_a_tie(rng: Generator, use_native: bool) -> None:
    for n in (1, 2, 31, 33, 300, 10_000):
        logits = np.round(rng.normal(0, 1, n)).astype(np.float32)
        logits[rng.integers(0, n, 3)] = 4
        assert SamplerChain().greedy().build(use_native=use_native).sample(logits) == min(
            i for i in range(n) if logits[i] == logits.max())
    zeros = np.array([-1, -0.0, 0.0], np.float32)
    assert SamplerChain().build(use_native=use_native).sample(zeros) == 1


@BOTH
def test_temperature_zero_is_greedy_after_penalties(use_native: bool) -> None:
    params = SamplingParams(temperature=0, repeat_penalty=3.0)
    assert [s.name for s in params.chain().steps] == ["penalties", "greedy"]
    sampler = params.chain().build(use_native=use_native)
    logits = np.array([1, 2, 3, 2.5], np.float32)
    logits.flags.writeable = False
    assert [sampler.sample(logits) for _ in range(3)] == [2, 3, 1]
    assert sampler.pick(logits) == 0  # [1, 2/3, 1, 2.5/3]
    assert logits.tolist() == [1, 2, 3, 2.5]


@BOTH
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_bad_logits_are_errors_and_leave_the_history(
        rng: Generator, chain: SamplerChain, use_native: bool) -> None:
    sampler = chain.build(use_native=use_native)
    for n in (1, 5, 100, 4099):
        for bad in (np.nan, np.inf):
            logits = rng.normal(size=n).astype(np.float32)
            logits[rng.integers(n)] = bad
            with pytest.raises(BadLogits, match=r"NaN or \+inf"):
                sampler.sample(logits)
        with pytest.raises(BadLogits):
            sampler.sample(np.full(n, -np.inf, np.float32))
    with pytest.raises(BadLogits):
        sampler.sample(np.zeros(0, np.float32))
    assert not len(sampler._state.recent(-1))


@BOTH
def test_steps_that_leave_nothing_or_overflow_are_errors(use_native: bool) -> None:
    logits = np.array([1, 2], np.float32)
    for chain in (SamplerChain().greedy(), SamplerChain().dist(), SamplerChain().top_p(0.5)):
        banned = SamplerChain((*SamplerChain().logit_bias({0: -math.inf, 1: -math.inf}).steps,
                               *chain.steps))
        with pytest.raises(BadLogits, match="no candidate"):
            banned.build(use_native=use_native).sample(logits)
        hot = SamplerChain((*SamplerChain().temp(1e-6).steps, *chain.steps))
        with pytest.raises(BadLogits):
            hot.build(use_native=use_native).sample(logits * np.float32(1e38))


@pytest.mark.parametrize("logits", [
    np.zeros(4), np.zeros((1, 4), np.float32), np.zeros(8, np.float32)[::2], [0.0, 1.0], None,
    np.zeros(4, np.int32)])
def test_logits_of_another_kind_are_refused(logits: Any) -> None:
    for sampler in (SamplerChain().greedy().build(), SamplingParams().chain().build(),
                    SamplerChain().step(EvenOnly()).build()):
        for call in (sampler.sample, sampler.pick):
            with pytest.raises(InvalidArgument, match="contiguous float32"):
                call(logits)
    with pytest.raises(InvalidArgument, match="contiguous float32"):
        logprobs(logits, 0)


@pytest.mark.parametrize(("name", "value"), [
    ("temperature", -0.1), ("temperature", math.nan), ("temperature", 1e-9),
    ("temperature", "warm"), ("top_k", 1.5), ("top_k", True), ("top_p", 1.01), ("top_p", -0.1),
    ("min_p", 2), ("repeat_penalty", 0), ("frequency_penalty", math.inf),
    ("presence_penalty", math.nan), ("penalty_last_n", -2), ("seed", -2), ("seed", 2**64),
    ("min_keep", -1)])
def test_parameters_are_validated_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=name):
        SamplingParams(**{name: value})


def test_chains_are_validated() -> None:
    with pytest.raises(InvalidArgument, match="comes after 'greedy'"):
        SamplerChain().greedy().temp(1)
    for steps in ((), (EvenOnly(),), (Greedy(), Dist())):
        with pytest.raises(InvalidArgument, match="exactly one choosing step"):
            Sampler(steps)
    for bias in ({-1: 0.0}, {0: math.nan}, {0: math.inf}, {2**31: 1.0}):
        with pytest.raises(InvalidArgument, match="logit_bias"):
            SamplerChain().logit_bias(bias)
    with pytest.raises(InvalidArgument, match="no sampler step"):
        SamplerChain().add("top_q", 1)
    with pytest.raises(InvalidArgument, match="seed"):
        SamplerChain().build(seed=-2)
    for ids in ([-1], [2**31], [1.5], [[1]]):
        with pytest.raises(InvalidArgument, match="token id"):
            SamplerChain().build().accept_prompt(ids)  # type: ignore[arg-type]
    for token in (-1, 2**31, 1.5, "1", None):
        with pytest.raises(InvalidArgument, match="no token id"):
            SamplerChain().greedy().build().accept(token)  # type: ignore[arg-type]


def test_the_public_chain_and_its_explanation() -> None:
    chain = SamplerChain().temp(0.8).top_p(0.95, 1).min_p(0.05, 1).penalties(64, 1.1, 0.0, 0.0)
    sampler = chain.build(seed=7)
    assert [s.name for s in sampler.steps] == ["temperature", "top_p", "min_p", "penalties",
                                               "dist"]
    assert "2. TopP(p=0.95, min_keep=1): native" in sampler.explain()
    assert "seed 7" in sampler.explain()
    assert "TopP(p=0.95, min_keep=1): NumPy" in chain.build(use_native=False).explain()
    assert "5. EvenOnly(): NumPy" in chain.step(EvenOnly()).explain()
    assert [s.name for s in SamplingParams(seed=3).chain().steps] == [
        "penalties", "top_k", "top_p", "min_p", "temperature", "dist"]
    assert SamplingParams(seed=3).chain().build().seed == 3
    assert SamplerChain().add("top_k", k=5) == SamplerChain().top_k(5)


def test_a_step_without_a_native_form_runs_amid_native_ones(rng: Generator) -> None:
    for where in range(4):
        steps = list(SamplerChain().penalties(9, 1.3).top_k(30).temp(0.9).dist(11).steps)
        steps.insert(where, EvenOnly())
        mixed, plain = Sampler(steps, 11), Sampler(steps, 11, use_native=False)
        assert len(mixed._parts) == (2 if where == 0 else 3)
        rows = rng.normal(0, 2, (30, 500)).astype(np.float32)
        tokens = [mixed.sample(row) for row in rows]
        assert tokens == [plain.sample(row) for row in rows]
        assert all(token % 2 == 0 for token in tokens)
    with pytest.raises(BadLogits, match="no candidate"):
        SamplerChain().step(EvenOnly()).build().sample(np.array([-np.inf, 1], np.float32))


def test_many_rows_are_the_same_as_one_by_one(rng: Generator) -> None:
    logits = rng.normal(0, 2, (5, 3000)).astype(np.float32)
    chains = [*CHAINS.values()]
    for mixed in (False, True):
        if mixed:
            chains[2] = SamplerChain().step(EvenOnly())
        bulk, single = ([c.build(seed=i) for i, c in enumerate(chains)] for _ in range(2))
        for _ in range(5):
            assert sample_rows(logits, bulk) == [
                s.sample(row) for s, row in zip(single, logits, strict=True)]
        assert all(len(s._state.recent(-1)) == 5 for s in bulk)
    assert sample_rows(np.zeros((0, 8), np.float32), []) == []
    with pytest.raises(InvalidArgument, match="5 rows"):
        sample_rows(logits, bulk[:2])


@BOTH
def test_a_bad_row_does_not_cost_the_others_their_tokens(use_native: bool) -> None:
    logits = np.array([[1, 2, 0], [np.nan, 2, 0], [3, 2, 0]], np.float32)
    samplers = [SamplerChain().greedy().build(use_native=use_native) for _ in range(3)]
    with pytest.raises(BadLogits, match="rows 1") as caught:
        sample_rows(logits, samplers)
    assert caught.value.rows == (1,)
    assert caught.value.tokens == (1, -1, 0)
    assert [s._state.recent(-1).tolist() for s in samplers] == [[1], [], [0]]


def test_logprobs(rng: Generator) -> None:
    for n in (1, 7, 300, 50_000):
        logits = rng.normal(0, rng.choice([0.1, 3, 10]), n).astype(np.float32)
        logits[n // 2] = -np.inf if n > 1 else 0
        wide = logits.astype(np.float64)
        exact = wide - wide.max() - math.log(np.exp(wide - wide.max()).sum())
        bound = 3e-6 + n * 2.0**-41
        token = int(rng.integers(n))
        value, top = logprobs(logits, token, 5)
        assert value == exact[token] or abs(value - exact[token]) <= bound
        order = sorted((i for i in range(n) if logits[i] > -np.inf),
                       key=lambda i: (-logits[i], i))[:5]
        assert [i for i, _ in top] == order
        assert all(abs(x - exact[i]) <= bound for i, x in top)
    for token, n_top in ((-1, 0), (n, 0), (0, -1)):
        with pytest.raises(InvalidArgument, match="token"):
            logprobs(logits, token, n_top)
    with pytest.raises(BadLogits):
        logprobs(np.full(4, np.nan, np.float32), 0)


def test_a_file_in_a_plugin_folder_is_a_step(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    (folder / "first_only.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from unladen.sample import Step\n"
        "@dataclass(frozen=True)\n"
        "class FirstOnly(Step):\n"
        "    name: ClassVar[str] = 'first_only'\n"
        "    n: int = 1\n"
        "    def apply(self, candidates, state):\n"
        "        candidates.keep(candidates.ids < self.n)\n")
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    found.cache_clear()
    registry.cache_clear()
    try:
        sampler = SamplerChain().add("first_only", n=2).greedy().build()
        assert sampler.sample(np.array([0, 1, 2], np.float32)) == 1
    finally:
        found.cache_clear()
        registry.cache_clear()
