"""A model divided by rows or by heads gives the same results as an undivided one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from factory import Shape, write_model
from schedule.paper import graph_of, paper_file
from tiny_plan import LAYOUT, LIMITS, Feed, Tiny, one_plan, open_tiny, steady
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.errors import InvalidArgument
from unladen.graph.graph import Graph, Node, Weight
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.cut.shard import apply
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions, cuts

SHAPES = [Shape("llama", n_embd=64, n_layers=3), Shape("llama", n_heads=12, n_kv_heads=3, k_dim=8),
          Shape("llama", n_embd=64, n_heads=8, n_kv_heads=4, n_ff=192, biases=True, tied=True),
          Shape("gpt2", n_embd=64, n_kv_heads=4), Shape("qwen2", n_embd=64),
          Shape("qwen3", n_embd=64, k_dim=16), Shape("qwen3moe", n_embd=64, n_experts=4)]
DEVICES = ("cpu:0", "cpu:1", "cpu:2")
ROUNDINGS = 300
"""Bound for sums in another order, in float32 roundings of 2**-24 relative to the largest logit:
some dozen roundings for each product on the way to a logit."""


def plan_options(mode: str, rng: np.random.Generator, n: int) -> PlaceOptions:
    # With a share near 0, one device would have all rows of every matrix.
    least = 0.2 if mode == "row" else 0
    shares = None if rng.random() < 0.3 else [*rng.uniform(least, 5, n - 1).tolist(), 2.0]
    return PlaceOptions(split_mode=mode, tensor_split=shares, main_gpu=int(rng.integers(n)))


@pytest.mark.parametrize("quant", ["F32", "Q8_0"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.arch}-{s.n_heads}-{s.n_kv_heads}")
@pytest.mark.parametrize("mode", ["row", "tensor"])
def test_same_logits(tmp_path: Path, rng: np.random.Generator, tokens: list[int], feed: Feed,
                     mode: str, shape: Shape, quant: str) -> None:
    precise = BackendOptions(precise=True)
    tokens = [t % shape.n_vocab for t in tokens]
    tiny = steady(lambda: write_model(tmp_path / "m.gguf", rng, shape, quant=quant), tokens, feed,
                  rng, ROUNDINGS * 2.0 ** -24)
    whole = feed(tiny.plan("cpu:0", backend=precise), tokens)
    for n in (2, 3):
        options = plan_options(mode, rng, n)
        plan = tiny.plan(*DEVICES[:n], backend=precise, place=options)
        off = np.abs(feed(plan, tokens) - whole).max() / np.abs(whole).max()
        assert off <= ROUNDINGS * 2.0 ** -24, (options, off)
        if mode == "row":
            used = {plan.blueprint.device_of[node][0].name for node in plan.blueprint.graph.nodes}
            assert len(used) > 1


def test_sinks_go_with_their_heads(rng: np.random.Generator, tokens: list[int], feed: Feed,
                                   tmp_path: Path) -> None:
    shape = SHAPES[1]
    tiny = open_tiny(write_model(tmp_path / "m.gguf", rng, shape))
    tokens = [t % shape.n_vocab for t in tokens]
    sinks = rng.normal(0, 3, (tiny.graph.n_layers, shape.n_heads)).astype(np.float32)
    graph = tiny.graph.replace_nodes([
        replace(n, weights={"sinks": Weight(f"sinks.{n.layer}", (shape.n_heads,), "F32")})
        if n.op == "attention" else n for n in tiny.graph.nodes])

    def data(name: str) -> npt.NDArray[np.uint8]:
        kind, _, layer = name.partition(".")
        return (sinks[int(layer)].view(np.uint8) if kind == "sinks"
                else tiny.file.tensors[name].data)

    def logits(*devices: str, **place: object) -> npt.NDArray[np.float32]:
        options = PlanOptions(devices, PlaceOptions(**place))  # type: ignore[arg-type]
        plan = one_plan(make_blueprint(graph, LIMITS, LAYOUT, options), data).main
        used = {d.name for n, (d, _) in plan.blueprint.device_of.items() if n.op == "attention"}
        assert used == set(devices)
        return feed(plan, tokens)
    whole = logits("reference:0")
    assert np.abs(whole - feed(tiny.plan("reference:0"), tokens)).max() > 1e-3
    parts = logits("reference:0", "reference:1", split_mode="tensor", tensor_split=[2, 1])
    assert np.abs(parts - whole).max() <= ROUNDINGS * 2.0 ** -24 * np.abs(whole).max()


def test_each_device_computes_its_share(tiny: Tiny) -> None:
    plan = tiny.plan("cpu:0", "null:0", "null:1", place=PlaceOptions(
        split_mode="tensor", tensor_split=[1, 1], n_gpu_layers=3))
    memory = {m.device.name: m for m in plan.blueprint.memory.devices}
    assert memory["null:0"].kv_bytes == memory["null:1"].kv_bytes > 0
    assert memory["cpu:0"].kv_bytes * 3 == memory["null:0"].kv_bytes * 2
    names = [n.name for n in plan.blueprint.graph.nodes]
    assert "blk.0.attn@null:1" in names and "blk.3.attn" in names
    assert [n.op for n in plan.blueprint.graph.nodes if n.layer == 0].count("add") == 8
    with pytest.raises(InvalidArgument, match=r"main_gpu must be .* got 2"):
        tiny.plan("cpu:0", "null:0", "null:1", place=PlaceOptions(split_mode="row", main_gpu=2))


@pytest.mark.parametrize("quant", ["Q4_K", "Q8_0", "F16"])
def test_every_row_and_column_once(rng: np.random.Generator, quant: str) -> None:
    """The parts of a weight make up the whole, and end on the borders of blocks, in either mode."""
    graph = graph_of(paper_file(Shape(
        "llama", n_embd=512, n_heads=8, n_kv_heads=4, k_dim=64, n_ff=1536, n_layers=2), quant))
    devices = [backend_of("null").open(f"null:{i}", BackendOptions()) for i in range(4)]
    for mode in ("row", "tensor"):
        divided, where, _ = apply(graph, plan_options(mode, rng, 4), {0, 1}, devices)
        elements = sum(w.n_elements for w in graph.weights().values() if len(w.shape) == 2)
        assert elements == sum(w.n_elements for w in divided.weights().values()
                               if len(w.shape) == 2)
        assert set(where.values()) <= set(devices) and set(where) <= set(divided.nodes)
        check_order(divided)


def check_order(graph: Graph) -> None:
    known = set(graph.inputs.values())
    for node in graph.nodes:
        assert set(node.inputs) <= known, node
        known |= set(node.outputs)
    assert set(graph.outputs.values()) <= known


def test_columns_of_a_weight(rng: np.random.Generator) -> None:
    from unladen.quants import dequantize, quantize
    from unladen.runtime.weights import load
    from unladen.schedule.needs import needs_of
    values = rng.standard_normal((5, 128)).astype(np.float32)
    raw = quantize("Q8_0", values).reshape(-1)
    part = Weight("w", (5, 128), "Q8_0").cols(32, 64)
    cpu = backend_of("cpu").open("cpu", BackendOptions())
    node = Node("n", "linear", (), (), {"w0": part})
    (placed,) = load(needs_of({node: cpu}, use_mmap=True), lambda key: raw).values()
    got = dequantize("Q8_0", backend_of("cpu").read(placed.buffer, part.nbytes_in("Q8_0")),
                     part.shape)
    assert np.array_equal(got, dequantize("Q8_0", raw, (5, 128))[:, 32:96])


def test_cuts(rng: np.random.Generator) -> None:
    for _ in range(100):
        unit = int(rng.integers(1, 40))
        n = unit * int(rng.integers(1, 50))
        shares = rng.dirichlet(np.ones(int(rng.integers(1, 6)))).tolist()
        ranges = cuts(n, shares, unit)
        assert [a for a, _ in ranges] == [0, *(b for _, b in ranges[:-1])] and ranges[-1][1] == n
        for (a, b), share in zip(ranges, shares, strict=True):
            assert a % unit == b % unit == 0 and a <= b
            assert abs((b - a) - share * n) <= unit + 1e-6
