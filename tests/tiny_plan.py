"""Plans of a tiny model, and steps by hand."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tiny_model import N_VOCAB, write_tiny
from unladen.backends import backend_of
from unladen.backends.base import Buffer, Device, KVLayout
from unladen.gguf import GGUFFile, open_gguf
from unladen.graph.graph import Graph
from unladen.models import load_architecture
from unladen.runtime.carry import Kept
from unladen.runtime.plan import Plan
from unladen.runtime.plan_set import PlanSet
from unladen.schedule.blueprint import Blueprint, make_blueprint
from unladen.schedule.blueprint_set import BlueprintSet
from unladen.schedule.options import PlanOptions
from unladen.types import MAIN, Limits

N_LAYERS = 4
LIMITS = Limits(n_tokens=16, n_outputs=16, n_seqs=2, n_blocks_per_seq=4, n_blocks=8)
LAYOUT = KVLayout(block_tokens=8, n_blocks=8, k_type="F32", v_type="F32")

Bytes = npt.NDArray[np.uint8]


@dataclass
class Tiny:
    """An open file and its graph."""

    file: GGUFFile
    graph: Graph

    def plan(self, *devices: str, **options: object) -> Plan:
        return self.plans(*devices, **options).main

    def plans(self, *devices: str, **options: object) -> PlanSet:
        wished = PlanOptions(devices or ("cpu:0",), **options)  # type: ignore[arg-type]
        return self.made(make_blueprint(self.graph, LIMITS, LAYOUT, wished))

    def made(self, blueprint: Blueprint, kept: Kept | None = None) -> PlanSet:
        return one_plan(blueprint, self.data, kept)

    def data(self, name: str) -> Bytes:
        return self.file.tensors[name].data


def one_plan(blueprint: Blueprint, data: Callable[[str], Bytes], kept: Kept | None = None
             ) -> PlanSet:
    """The plan set of one graph, whose tensors are in one file."""
    return PlanSet(BlueprintSet.of({MAIN: blueprint}), lambda key: data(key.tensor), kept)


def open_tiny(path: Path) -> Tiny:
    file = open_gguf(path)
    return Tiny(file, load_architecture(file).build())


@pytest.fixture(scope="package")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    seed = secrets.randbits(32)
    print(f"weights: {seed}")
    path = write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf",
                      np.random.default_rng(seed), n_layers=N_LAYERS)
    result = open_tiny(path)
    yield result
    result.file.close()


@pytest.fixture
def tokens(rng: np.random.Generator) -> list[int]:
    return list(rng.integers(3, N_VOCAB, 21).tolist())


Feed = Callable[[Plan, list[int]], npt.NDArray[np.float32]]


@pytest.fixture
def feed() -> Feed:
    """Compute tokens in steps of at most 16 and one last step of one; all logits."""
    def run(plan: Plan, tokens: list[int]) -> npt.NDArray[np.float32]:
        rows, done = [], 0
        for n in (min(16, len(tokens) - 1), len(tokens) - 1 - min(16, len(tokens) - 1), 1):
            if n:
                fill(plan, tokens[done:done + n], done)
                plan.run()
                rows.append(plan.output("logits").copy())
                done += n
        return np.concatenate(rows)
    return run


def fill(plan: Plan, tokens: list[int], start: int, table: tuple[int, ...] = (3, 1, 5, 0), *,
         outputs: tuple[int, ...] | None = None) -> None:
    """One sequence's tokens from position ``start`` on, its cache in the blocks ``table``; logits
    of the rows ``outputs``, or all."""
    batch, n = plan.batch, len(tokens)
    batch.tokens[:n] = tokens
    batch.positions[:n] = range(start, start + n)
    batch.seq_of[:n] = 0
    batch.q_start[:2] = 0, n
    batch.kv_len[0] = start + n
    batch.block_table[0, :len(table)] = table
    rows = tuple(range(n)) if outputs is None else outputs
    batch.out_rows[:len(rows)] = rows
    batch.n_tokens, batch.n_outputs, batch.n_seqs = n, len(rows), 1


def steady(draw: Callable[[], Path], tokens: list[int], feed: Feed, rng: np.random.Generator,
           close: float) -> Tiny:
    """The first model drawn whose logits for ``tokens`` depend little enough on roundings.

    Some models with random weights amplify a rounding: a softmax near its limit does, and a router
    may choose another of two experts with nearly the same weight. ``close`` is the share of the
    largest logit by which a test lets results differ. The weights of norms are changed at random by
    up to 2**-20 of their size, about as much as roundings move a sum of 256 products. The model is
    taken if this moves no logit by a sixth of ``close``."""
    for _ in range(100):
        tiny = open_tiny(draw())

        def moved(name: str, tiny: Tiny = tiny) -> Bytes:
            data = tiny.data(name)
            if "norm" not in name:
                return data
            weights = data.view(np.float32)
            by = 1 + 2.0 ** -20 * rng.uniform(-1, 1, weights.shape)
            return (weights * by).astype(np.float32).view(np.uint8)
        blueprint = make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions(("reference:0",)))
        whole = feed(tiny.made(blueprint).main, tokens)
        others = [feed(one_plan(blueprint, moved).main, tokens) for _ in range(3)]
        if max(np.abs(other - whole).max() for other in others) < close / 6 * np.abs(whole).max():
            return tiny
        tiny.file.close()
    raise AssertionError("100 models were drawn, and each amplifies roundings")


Allocated = dict[tuple[str, str], int]


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> Allocated:
    """Bytes given out, by device and use."""
    sizes: Allocated = {}

    def watch(backend: Any) -> None:
        alloc = backend.alloc

        def counted(device: Device, nbytes: int, use: str, row_bytes: int = 1) -> Buffer:
            sizes[device.name, use] = sizes.get((device.name, use), 0) + nbytes
            buffer: Buffer = alloc(device, nbytes, use, row_bytes)
            assert buffer.nbytes == nbytes
            return buffer
        monkeypatch.setattr(backend, "alloc", counted)
    for name in ("cpu", "null", "reference"):
        watch(backend_of(name))
    return sizes
