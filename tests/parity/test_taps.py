"""Tapped values of every kind of model equal those of the architecture's graph, computed directly.

The graph is evaluated node by node with the ops' references, before any pass changes it, with an
array as its cache. Plans, backends and engines aren't used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.parity import recipes
from tests.parity.recipes import Recipe, answer, error

from unladen import Model
from unladen.gguf import GGUFFile, open_gguf
from unladen.graph.batch import Batch
from unladen.graph.graph import Graph, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext
from unladen.quants import dequantize
from unladen.types import NO_SLOT, Limits

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]

EXACT, CPU_F32 = 1e-9, 1e-8
"""Bounds of normalized mean squared errors, like those for logits in test_architectures: for
float32 values between nodes, and for float32 sums."""

KINDS = ("llama-dense", "gemma2-dense", "bert-dense", "mamba2-dense", "qwen3next-moe",
         "deepseek2-moe")


@dataclass
class DenseKV:
    """The cache of one layer for one sequence."""

    spec: KVSpec
    k: Array = field(default_factory=lambda: np.empty(0))
    v: Array = field(default_factory=lambda: np.empty(0))

    def store(self, batch: Batch, k: Array, v: Array) -> None:
        self.k, self.v = np.array(k), np.array(v)

    def load(self, batch: Batch, seq: int) -> tuple[Array, Array]:
        return self.k, self.v


class Paper:
    """A graph and a file's weights, evaluated for one whole sequence."""

    def __init__(self, graph: Graph, file: GGUFFile) -> None:
        self.graph, self._file = graph, file
        self._weights: dict[str, Array] = {}

    def weight(self, w: Weight) -> Array:
        """The weight in float64."""
        if w.name not in self._weights:
            info = self._file.tensors[w.tensor]
            whole = dequantize(w.quant, info.data, info.shape).astype(np.float64)
            whole = whole.reshape(-1, *w.shape[1:]) if not w.n_cols_of_tensor else whole
            rows = whole[w.first_row:w.first_row + w.shape[0]]
            self._weights[w.name] = (rows[..., w.first_col:w.first_col + w.shape[-1]]
                                     if w.n_cols_of_tensor else rows)
        return self._weights[w.name]

    def context(self, node: Node, batch: Batch, caches: dict[int, DenseKV]) -> RefContext:
        """The context for the reference of ``node``."""
        size = get_op(node.op).state_size(node)
        return RefContext(batch, {role: self.weight(w) for role, w in node.weights.items()},
                          None if node.state is None else caches[node.state.layer],
                          slots=np.zeros((1, size)) if size else None)

    def values(self, tokens: list[int], change: Mapping[str, Change] | None = None
               ) -> dict[str, Array]:
        """Every value by name; ``change`` replaces some before other nodes read them."""
        batch, values = batch_of(tokens), dict[Value, Array]()
        for name, value in self.graph.inputs.items():
            values[value] = getattr(batch, name)
        caches = {layer: DenseKV(spec) for layer, spec in self.graph.states().items()}
        for node in self.graph.nodes:
            inputs = [values[v] for v in node.inputs]
            results = get_op(node.op).reference(node, inputs, self.context(node, batch, caches))
            for value, result in zip(node.outputs, results, strict=True):
                f = (change or {}).get(value.name, lambda x: x)
                values[value] = f(result)
        return {v.name: array for v, array in values.items()}


def batch_of(tokens: list[int]) -> Batch:
    """A batch of one sequence that wants all logits."""
    n = len(tokens)
    batch = Batch.empty(Limits(n, n, 1, 1, 1, block_tokens=n))
    batch.place(0, 0, tokens, 0, np.zeros(1, np.int32))
    batch.out_rows[:] = range(n)
    batch.state_in[0], batch.state_out[0] = NO_SLOT, 0
    batch.n_tokens = batch.n_outputs = n
    batch.n_seqs = 1
    return batch


@dataclass
class Setting:
    """A recipe and its graph on paper."""

    recipe: Recipe
    paper: Paper

    @property
    def tokens(self) -> list[int]:
        return self.recipe.tokens[:24]


@pytest.fixture(scope="module", params=[k for k in KINDS if k in recipes.names()])
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    recipe = recipes.make(str(request.param), tmp_path_factory.mktemp("archs"))
    with Model(recipe.path) as model:
        graph = model.architecture.build()
    return Setting(recipe, Paper(graph, open_gguf(recipe.path)))


def test_the_kinds_are_there(shared: Path) -> None:
    assert set(KINDS) <= set(recipes.names())


@pytest.mark.parametrize(("options", "bound"), [
    ({"devices": ["reference"]}, EXACT), ({}, CPU_F32), ({"batch_size": 7}, CPU_F32)])
def test_all_values(shared: Path, setting: Setting, options: dict[str, Any], bound: float) -> None:
    expected = setting.paper.values(setting.tokens)
    with Model(setting.recipe.path, kv_type="f32", **options) as model:
        before = answer(model, setting.tokens)
        with model.tap("*") as taps:
            np.testing.assert_array_equal(answer(model, setting.tokens), before)
    assert taps.names == list(model_names(setting.paper.graph))
    assert taps.positions.tolist() == list(range(len(setting.tokens)))
    assert taps.tokens.tolist() == setting.tokens and not taps.requests.any()
    for name in taps.names:
        mine = taps[name]
        assert mine.dtype == np.float32 and mine.shape == expected[name].shape, name
        assert error(mine, expected[name]) < bound, name


def model_names(graph: Graph) -> list[str]:
    return [v.name for n in graph.nodes for v in n.outputs]


def test_each_node_within_its_bound(shared: Path, setting: Setting) -> None:
    """Each node's value follows from the CPU's own inputs of the node, within the bound that its op
    derives from sizes and magnitudes. The test above covers nodes with a cache or a state."""
    with Model(setting.recipe.path, kv_type="f32") as model, model.tap("*") as taps:
        answer(model, setting.tokens)
    batch, n_checked = batch_of(setting.tokens), 0
    for node in setting.paper.graph.nodes:
        op = get_op(node.op)
        if node.state is not None or op.state_size(node) or not node.outputs:
            continue
        inputs = [getattr(batch, v.name) if v.name in setting.paper.graph.inputs
                  else taps[v.name].astype(np.float64) for v in node.inputs]
        ctx = setting.paper.context(node, batch, {})
        results = op.reference(node, inputs, ctx)
        bounds = op.error_bound(node, inputs, ctx)
        for value, result, bound in zip(node.outputs, results, bounds, strict=True):
            n_checked += 1
            assert (np.abs(taps[value.name] - result) <= bound).all(), value.name
    assert n_checked > 8


def test_a_vector_is_added(shared: Path, setting: Setting, rng: np.random.Generator) -> None:
    """The answer equals that of the graph in which the same vector is added."""
    graph = setting.paper.graph
    name = next(v.name for n in graph.nodes[len(graph.nodes) // 2:] for v in n.outputs
                if n.op in ("add", "linear", "moe") and n.layer >= 0)
    width = next(v.shape[-1] for n in graph.nodes for v in n.outputs if v.name == name)
    vector = rng.standard_normal(int(width)).astype(np.float32)
    values = setting.paper.values(setting.tokens, {name: lambda x: x + vector})
    (result,) = graph.outputs.values()
    for options, bound in (({"devices": ["reference"]}, EXACT), ({"batch_size": 7}, CPU_F32),
                           ({}, CPU_F32)):
        with Model(setting.recipe.path, kv_type="f32", **options) as model:
            before = rows(model, setting.tokens)
            with model.tap(add={name: vector}), model.tap([name]) as taps:
                mine = rows(model, setting.tokens)
            np.testing.assert_array_equal(rows(model, setting.tokens), before)
        assert error(mine, values[result.name]) < bound
        assert error(taps[name], values[name]) < bound
        assert error(before, values[result.name]) > 1e3 * bound


def rows(model: Model, tokens: list[int]) -> npt.NDArray[np.float32]:
    """The logits, or the embeddings of the last node."""
    is_encoder = "embeddings" in model.architecture.build().outputs
    return model.embed(tokens, pooling="none") if is_encoder else model.logits(tokens)


def test_replaced_with_itself(shared: Path, setting: Setting) -> None:
    """No bit of the answer changes."""
    with Model(setting.recipe.path, kv_type="f32") as model:
        before = answer(model, setting.tokens)
        seen: dict[str, int] = {}

        def same(values: Array, info: Any) -> Array:
            seen[info.node] = seen.get(info.node, 0) + len(values)
            return values
        with model.tap({"*": same}):
            np.testing.assert_array_equal(answer(model, setting.tokens), before)
    assert seen == dict.fromkeys(model_names(setting.paper.graph), len(setting.tokens))
