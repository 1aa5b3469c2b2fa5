"""A model of two graphs from two files: a language model, and a smaller one that guesses ahead."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from tiny_plan import LAYOUT, LIMITS
from unladen.assembly.sources import Sources
from unladen.gguf import GGUFFile, open_gguf
from unladen.graph.graph import Graph
from unladen.models import Architecture, load_architecture
from unladen.runtime.carry import Kept
from unladen.runtime.plan_set import PlanSet
from unladen.schedule.blueprint_set import BlueprintSet, GraphWish, make_blueprints
from unladen.schedule.options import PlanOptions
from unladen.types import MAIN, Limits

DRAFT = "draft"
N_LAYERS = {MAIN: 4, DRAFT: 2}
SMALLER = replace(LAYOUT, n_blocks=6)
SIZES = {MAIN: (LIMITS, LAYOUT),
         DRAFT: (Limits(n_tokens=16, n_outputs=16, n_seqs=1, n_blocks_per_seq=4, n_blocks=6),
                 SMALLER)}
SHARED = ("token_embd.weight", "output.weight")


@dataclass
class Pair:
    """Two open files, and the architectures in them."""

    files: Sequence[GGUFFile]
    sources: Sources
    architectures: Mapping[str, Architecture]

    def graphs(self, *, shared: bool = False) -> dict[str, Graph]:
        """By name. ``shared``: the draft's embeddings and head are those of the model's file."""
        graphs = {name: a.build() for name, a in self.architectures.items()}
        if shared:
            graphs[DRAFT] = graphs[DRAFT].replace_nodes([replace(node, weights={
                role: replace(w, file=MAIN) if w.tensor in SHARED else w
                for role, w in node.weights.items()}) for node in graphs[DRAFT].nodes])
        return graphs

    def wishes(self, *devices: str, shared: bool = False, arena: str = MAIN, **options: object
               ) -> dict[str, GraphWish]:
        wished = PlanOptions(devices or ("cpu:0",), **options)  # type: ignore[arg-type]
        return {name: GraphWish(graph, *SIZES[name], wished, MAIN if name == MAIN else arena)
                for name, graph in self.graphs(shared=shared).items()}

    def plans(self, wishes: Mapping[str, GraphWish], kept: Kept | None = None) -> PlanSet:
        return self.made(make_blueprints(wishes), kept)

    def made(self, blueprint: BlueprintSet, kept: Kept | None = None) -> PlanSet:
        return PlanSet(blueprint, self.sources.data, kept)

    def alone(self, wishes: Mapping[str, GraphWish]) -> dict[str, PlanSet]:
        """A set of its own for each graph, which is the only one in it."""
        return {name: self.plans({MAIN: wish}) for name, wish in wishes.items()}


def write_pair(folder: Path, rng: np.random.Generator, *, n_embd: int = 128, quant: str = "F32"
               ) -> dict[str, Path]:
    return {name: write_tiny(folder / f"{name}.gguf", rng, n_layers=n, n_embd=n_embd, quant=quant)
            for name, n in N_LAYERS.items()}


def open_pair(paths: Mapping[str, Path]) -> Pair:
    files = [open_gguf(path, key=name) for name, path in paths.items()]
    return Pair(files, Sources(*files), {f.key: load_architecture(f) for f in files})


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    seed = secrets.randbits(32)
    print(f"weights: {seed}")
    folder = tmp_path_factory.mktemp("pair")
    result = open_pair(write_pair(folder, np.random.default_rng(seed)))
    yield result
    for file in result.files:
        file.close()
