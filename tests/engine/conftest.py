"""Fixtures: a tiny model's file, models from it, and a sampler step that writes given tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tiny_model import N_VOCAB, write_tiny
from unladen import Model, SamplerChain
from unladen.backends import backend_of
from unladen.backends.cpu.features import isa_levels
from unladen.sample import Sampler
from unladen.sample.base import Candidates, State, Step

CONTEXT = 192
EXACT = {"devices": ["reference"], "kv_type": "f32"}
"""Options of a model whose results hardly depend on what else is in a step: the reference sums in
float64. So another order of sums changes one in 10**8 of the float32 numbers between nodes, by one
unit."""


@pytest.fixture(params=isa_levels())
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each level of the CPU's kernels in turn."""
    monkeypatch.setattr(backend_of("cpu"), "_level", request.param)
    return str(request.param)


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    seed = secrets.randbits(32)
    print(f"weights: {seed}")
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", np.random.default_rng(seed),
                      context=CONTEXT)


Load = Callable[..., Model]


@pytest.fixture
def load(path: Path) -> Iterator[Load]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Model(path, **options))


@pytest.fixture
def prompts(rng: np.random.Generator) -> list[list[int]]:
    """Prompts of very different lengths: one has a single token, one is longer than a chunk."""
    return [rng.integers(3, N_VOCAB, n).tolist() for n in (1, 90, 5, 33, 64, 2, 17)]


@dataclass(frozen=True)
class Scripted(Step):
    """Chooses the tokens of ``script`` one after another, whatever the logits are."""

    name: ClassVar[str] = "scripted"
    chooses: ClassVar[bool] = True
    script: tuple[int, ...] = ()

    def apply(self, candidates: Candidates, state: State) -> None:
        n = state.memory.get("scripted", 0)
        assert isinstance(n, int)
        state.memory["scripted"] = n + 1
        candidates.chosen = self.script[n % len(self.script)]


def scripted(script: Sequence[int]) -> Sampler:
    return SamplerChain().step(Scripted(tuple(script))).build()


def check_idle(model: Model) -> None:
    """Check that no request has left anything: every block is available."""
    pool: Any = model.engine.pool
    assert pool.n_available == pool.n_blocks
