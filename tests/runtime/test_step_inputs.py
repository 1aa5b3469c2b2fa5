"""Steps that bring more than tokens: rows, positions with axes, spans, adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from tiny_model import N_VOCAB, write_tiny
from tiny_plan import Tiny
from unladen.backends import registry
from unladen.gguf import HParams, open_gguf
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value, Weight
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.attention import rope_attrs
from unladen.models.llama import Llama
from unladen.runtime.plan import Plan
from unladen.types import NO_ADAPTERS

N_EMBD, N_LAYERS, RANKS = 64, 3, (4, 8)
STRENGTHS = ((0.5, 0.0), (0.0, -1.5), (1.0, 2.0))
TABLE = np.array([3, 1, 5, 0], np.int32)
Rows = npt.NDArray[np.float32]


class Pictured(Llama):
    """A model that takes rows and adapters, rotates pairs by two axes alternately, and lets the
    tokens of a picture see one another."""

    n_axes: ClassVar[int] = 2

    def embed(self, g: GraphBuilder) -> Value:
        return g.insert_rows(super().embed(g))

    def rope_table(self, g: GraphBuilder, name: str = "rope_table", *, layer: int = 0,
                   base: float | None = None, scaled: bool = True) -> Value:
        attrs = rope_attrs(self.hparams, self.tensors, self.heads[layer].n_rot)
        freqs = attrs["freqs"]
        assert isinstance(freqs, tuple)
        axes = tuple(i % 2 for i in range(len(freqs)))
        return g.one("rope_table", g.inputs["positions"], name=name, attrs={**attrs, "axes": axes})

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), spans=True)

    def linear(self, g: GraphBuilder, x: Value, parts: dict[str, int], name: str
               ) -> tuple[Value, ...]:
        ys = super().linear(g, x, parts, name)
        if "attn_output" not in parts:
            return ys
        full, n_in = self.name(g, "attn_output"), x.shape[-1]
        assert isinstance(n_in, int)
        a, b = (self.tensors.weight(f"{full}.lora_{which}", *shape) for which, shape in
                (("a", (sum(RANKS), n_in)), ("b", (N_EMBD, sum(RANKS)))))
        low = self._product(g, x, a, f"{name}_low")
        low = g.one("adapter_scale", low, name=f"{name}_scaled", attrs={
            "ranks": RANKS, "scales": tuple(s for row in STRENGTHS for s in row)})
        return (g.one("add", ys[0], self._product(g, low, b, f"{name}_high"), name=f"{name}_sum"),)

    def _product(self, g: GraphBuilder, x: Value, w: Weight, name: str) -> Value:
        return g.one("linear", x, name=name, weights={"w0": w})


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    low = {f"blk.{i}.attn_output.lora_{which}": (rng.standard_normal(shape) / 8).astype(np.float32)
           for i in range(N_LAYERS)
           for which, shape in (("a", (sum(RANKS), N_EMBD)), ("b", (N_EMBD, sum(RANKS))))}
    return write_tiny(tmp_path / "tiny.gguf", rng, n_layers=N_LAYERS, n_embd=N_EMBD, changed=low)


@contextmanager
def opened(path: Path) -> Iterator[Tiny]:
    with open_gguf(path) as file:
        yield Tiny(file, Pictured(file, HParams(file.metadata, path=str(path))).build())


@contextmanager
def merged(path: Path, chosen: int) -> Iterator[Tiny]:
    """The model of ``path`` whose matrices have the adapters of the set ``chosen`` in them."""
    with open_gguf(path) as file:
        tensors = {name: t.data.view(np.float32).reshape(t.shape)
                   for name, t in file.tensors.items()}
        scales = np.repeat((0.0, 0.0) if chosen == NO_ADAPTERS else STRENGTHS[chosen], RANKS)
        changed = {name: np.array(w) for name, w in tensors.items()}
        for i in range(N_LAYERS):
            name = f"blk.{i}.attn_output"
            high, low = (tensors[f"{name}.lora_{which}"].astype(np.float64) for which in "ba")
            changed[f"{name}.weight"] += ((high * scales) @ low).astype(np.float32)
    other = write_tiny(path.with_name("merged.gguf"), np.random.default_rng(0), n_layers=N_LAYERS,
                       n_embd=N_EMBD, changed=changed)
    with opened(other) as tiny:
        yield tiny


@pytest.fixture
def pictured(path: Path) -> Iterator[Tiny]:
    with opened(path) as tiny:
        yield tiny


def devices() -> list[tuple[str, ...]]:
    found = [("reference:0",), ("cpu:0",), ("cpu:0", "cpu:1")]
    return found + [("wgpu:0",), ("cpu:0", "wgpu:0")] * bool(registry()["wgpu"].devices())


each_device = pytest.mark.parametrize("names", devices(), ids="-".join)


def plan_of(tiny: Tiny, names: tuple[str, ...]) -> Plan:
    return tiny.plan(*names)


def run(plan: Plan, place: Callable[[Plan], int], n_seqs: int = 1) -> Rows:
    """The logits of all tokens of a step that ``place`` fills."""
    batch = plan.batch
    batch.begin()
    batch.n_tokens = batch.n_outputs = place(plan)
    batch.n_seqs = n_seqs
    batch.out_rows[:batch.n_outputs] = range(batch.n_outputs)
    plan.run()
    return np.array(plan.output("logits"))


def embeddings(tiny: Tiny, tokens: list[int]) -> Rows:
    table = tiny.file.tensors["token_embd.weight"].data.view(np.float32).reshape(N_VOCAB, N_EMBD)
    return np.array(table[tokens])


def both_axes(start: int, n: int) -> npt.NDArray[np.int32]:
    return np.repeat(np.arange(start, start + n, dtype=np.int32)[:, None], 2, axis=1)


@each_device
def test_rows_are_what_tokens_would_be(pictured: Tiny, names: tuple[str, ...],
                                       rng: np.random.Generator) -> None:
    plan, tokens = plan_of(pictured, names), list(map(int, rng.integers(3, N_VOCAB, 11)))
    plain = run(plan, lambda p: p.batch.place(0, 0, tokens, 0, TABLE))

    def mixed(p: Plan) -> int:
        row = p.batch.place(0, 0, tokens[:3], 0, TABLE)
        row = p.batch.place_rows(0, row, embeddings(pictured, tokens[3:8]), both_axes(3, 5), 3,
                                 TABLE, together=False)
        return p.batch.place(0, row, tokens[8:], 8, TABLE)

    np.testing.assert_array_equal(run(plan, mixed), plain)
    np.testing.assert_array_equal(run(plan, lambda p: p.batch.place(0, 0, tokens, 0, TABLE)), plain)


@each_device
def test_a_picture_sees_itself_and_turns_by_its_axes(pictured: Tiny, names: tuple[str, ...],
                                                     rng: np.random.Generator) -> None:
    """Compares with the same step in float64, key by key from the definition of the ops."""
    rows = rng.standard_normal((6, N_EMBD)).astype(np.float32)
    places = np.array([[2 + i // 3, 2 + i % 3] for i in range(6)], np.int32)

    def step(together: bool) -> Callable[[Plan], int]:
        def place(p: Plan) -> int:
            row = p.batch.place(0, 0, [5, 6], 0, TABLE)
            row = p.batch.place_rows(0, row, rows, places, 2, TABLE, together=together)
            return p.batch.place(0, row, [7, 8], 8, TABLE, ahead=-3)
        return place

    plan, paper = plan_of(pictured, names), plan_of(pictured, ("reference:0",))
    causal, seen = run(plan, step(False)), run(plan, step(True))
    for mine, wanted in ((causal, run(paper, step(False))), (seen, run(paper, step(True)))):
        assert np.abs(mine - wanted).max() < 1e-3 * np.abs(wanted).max()
    np.testing.assert_array_equal(seen[:2], causal[:2])
    assert (np.abs(seen - causal)[2:7].max(axis=1) > 1e-3).all(), "all but the last see more"
    alone = run(plan, lambda p: p.batch.place_rows(0, 0, rows, both_axes(0, 6), 0, TABLE,
                                                   together=True))
    turned = run(plan, lambda p: p.batch.place_rows(0, 0, rows, places, 0, TABLE, together=True))
    assert np.abs(alone - turned).max() > 1e-3


@each_device
def test_each_sequence_has_its_adapters(path: Path, pictured: Tiny, names: tuple[str, ...],
                                        rng: np.random.Generator) -> None:
    """Compares with models whose matrices have the adapters added to them."""
    texts = [list(map(int, rng.integers(3, N_VOCAB, 5))) for _ in range(2)]
    plan = plan_of(pictured, names)
    for sets in ((0, 1), (2, NO_ADAPTERS), (NO_ADAPTERS, 2)):
        def place(p: Plan, sets: tuple[int, int] = sets) -> int:
            row = p.batch.place(0, 0, texts[0], 0, TABLE[:2], adapters=sets[0])
            return p.batch.place(1, row, texts[1], 0, TABLE[2:], adapters=sets[1])

        mine = run(plan, place, n_seqs=2).reshape(2, 5, -1)
        for logits, text, chosen in zip(mine, texts, sets, strict=True):
            with merged(path, chosen) as tiny:
                wanted = run(plan_of(tiny, ("reference:0",)),
                             lambda p, text=text: p.batch.place(0, 0, text, 0, TABLE))
            assert np.abs(logits - wanted).max() < 1e-3 * np.abs(wanted).max()
