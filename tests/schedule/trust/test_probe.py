"""Kernels are tried before they are used, and wrong ones are found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tiny_model import N_VOCAB, write_tiny

from factory import Shape
from schedule.paper import graph_of, paper_file
from unladen import Model
from unladen._native import cpu as native
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Buffer, Device, KVLayout
from unladen.backends.cpu import CpuBackend
from unladen.backends.cpu import compile as compiling
from unladen.errors import OutOfMemory, UnsupportedOp
from unladen.graph.graph import Node
from unladen.graph.ops.rms_norm import RmsNorm
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.options import PlanOptions
from unladen.schedule.trust import kernels, probe
from unladen.schedule.trust.probe import Sample, fault
from unladen.types import Limits

Sabotage = Callable[..., None]


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the results of trials before and after each test."""
    monkeypatch.delenv("UNLADEN_PROBE", raising=False)
    fault.cache_clear()
    yield
    fault.cache_clear()


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", rng, quant="Q8_0", n_embd=128)


@pytest.fixture
def tokens(rng: np.random.Generator) -> list[int]:
    return list(rng.integers(3, N_VOCAB, 50).tolist())


Add = Callable[[Any, Any, Any], None]


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Add], None]:
    """``replaced("glu", add)``: the CPU's program gets nodes of that op from ``add``."""
    add = compiling.add

    def replace_(op: str, other: Add) -> None:
        monkeypatch.setattr(compiling, "add", lambda p, node, at: (
            other if node.op == op else add)(p, node, at))
    return replace_


@pytest.fixture
def sabotage(replaced: Callable[[str, Add], None]) -> Sabotage:
    """``sabotage("glu")``: the CPU's kernel of that op gives twice its result, if the weights or
    the cache are of type ``only``."""
    add = compiling.add

    def break_(op: str, only: str = "") -> None:
        def wrong(p: Any, node: Any, at: Any) -> None:
            add(p, node, at)
            types = {at.segment.weights[w.name].quant for w in node.weights.values()}
            if node.state is not None:
                types.add(at.segment.kv[node.state.layer].layout.k_type)
            if not only or only in types:
                for value in node.outputs:
                    y = at(value), "f32", *value.shape
                    p.add(native.Node(op="add", name="twice", inputs=[y, y], outputs=[y],
                                      weights={}, attrs={}))
        replaced(op, wrong)
    return break_


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.message for r in caplog.records if r.levelno == logging.WARNING]


def on(model: Model, op: str) -> set[str]:
    return {d.name for n, (d, _) in model.engine.plan.blueprint.device_of.items() if n.op == op}


def test_a_sound_device_says_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for devices in (["cpu"], ["reference"], ["cpu:1", "cpu:0"], ["cpu", "null:0"]):
        for precise in (False, True):
            with Model(path, devices=devices, precise=precise, strict=True) as model:
                assert model.degradations == ()
    assert not warnings(caplog) and fault.cache_info().currsize > 30


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "qwen3moe", "gpt2"])
@pytest.mark.parametrize("quant", ["F32", "F16", "Q4_0", "Q5_K", "IQ2_XS", "TQ2_0"])
def test_architectures(make_model: Any, arch: str, quant: str) -> None:
    sizes = {"n_experts": 5, "n_used": 3} if arch.endswith("moe") else {}
    path = make_model(arch, quant=quant, n_embd=256, n_ff=256, n_ctx=32, **sizes)
    with Model(path, strict=True, kv_type="q8_0"), Model(path, strict=True, devices=["reference"]):
        pass


def test_tried_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Model(path).close()
    n = fault.cache_info().misses
    assert 10 < n < 20, "not once for every layer"
    monkeypatch.setattr(probe, "_Trial", None)
    Model(path, context_size=64, batch_size=7).close()
    assert fault.cache_info().misses == n


def test_a_wrong_op_runs_elsewhere(path: Path, tokens: list[int], sabotage: Sabotage,
                                   caplog: pytest.LogCaptureFixture) -> None:
    with Model(path, kv_type="f32") as model:
        expected = model.logits(tokens)
    fault.cache_clear()
    sabotage("rms_norm")
    with Model(path, kv_type="f32") as model:
        assert on(model, "rms_norm") == {"reference:0"} and on(model, "linear") == {"cpu:0"}
        # Elsewhere other rounding applies, also to the activations in 8 bits.
        assert np.abs(model.logits(tokens) - expected).max() < 0.05 * np.abs(expected).max()
    found, fallback = warnings(caplog)
    assert "cpu:0 computes rms_norm wrongly" in found and "instead of" in found
    assert "UNLADEN_PROBE=0" in found
    assert "cpu:0 lacks the op (rms_norm)" in fallback and "reference:0" in fallback
    caplog.clear()
    with Model(path, devices=["cpu", "cpu:1"], kv_type="f32") as model:
        assert on(model, "rms_norm") == {"reference:0"}
    assert "cpu:1 computes rms_norm" in warnings(caplog)[0], "another device"
    assert not any("cpu:0 computes" in w for w in warnings(caplog)), "reported before"


def test_a_wrong_type_is_converted(path: Path, tokens: list[int], sabotage: Sabotage,
                                   caplog: pytest.LogCaptureFixture) -> None:
    with Model(path, kv_type="f32", devices=["reference"]) as model:
        expected = model.logits(tokens)
    sabotage("linear", only="Q8_0")
    with Model(path, kv_type="f32") as model:
        assert on(model, "linear") == {"cpu:0"}
        plan = model.engine.plan.blueprint
        assert {n.quant for n in plan.needs if "attn" in n.weight.name} == {"F32"}
        assert {n.quant for n in plan.needs if n.weight.name == "token_embd.weight"} == {"Q8_0"}
        # Weights of 32 bits meet activations of 32 bits: as exact as the reference.
        assert np.abs(model.logits(tokens) - expected).max() < 1e-4 * np.abs(expected).max()
    messages = warnings(caplog)
    assert "cpu:0 computes linear wrongly with Q8_0" in messages[0]
    assert "cpu:0 has no kernel for Q8_0: " in messages[-1] and "F32 for linear" in messages[-1]


def test_tied_weights_are_converted_for_both(make_model: Any, sabotage: Sabotage) -> None:
    """The table of embeddings is also the output matrix, which must not use the wrong kernel."""
    sabotage("linear", only="Q8_0")
    with Model(make_model("llama", quant="Q8_0", tied=True)) as model:
        need, = (n for n in model.engine.plan.blueprint.needs
                 if n.weight.name == "token_embd.weight")
        assert need.quant == "F32"


def test_a_wrong_cache_type(path: Path, tokens: list[int], sabotage: Sabotage,
                            caplog: pytest.LogCaptureFixture) -> None:
    sabotage("attention", only="Q8_0")
    with Model(path, strict=True) as model:
        assert on(model, "attention") == {"cpu:0"}
        with pytest.raises(UnsupportedOp, match="a Q8_0 and Q8_0 cache"):
            model.place(kv_type="q8_0")
        assert model.generate(tokens, max_tokens=2).tokens
    with Model(path, kv_type="q8_0") as model:
        assert on(model, "attention") == on(model, "kv_write") == {"reference:0"}
        assert model.generate(tokens, max_tokens=2).tokens


def test_a_little_wrong_and_not_at_all_computed(path: Path, replaced: Callable[[str, Add], None]
                                                ) -> None:
    add = compiling.add

    def other_eps(p: Any, node: Any, at: Any) -> None:
        attrs = {**node.attrs, "eps": node.float_attr("eps") * 30}
        add(p, replace(node, attrs=attrs), at)
    for wrong in (other_eps, lambda p, node, at: None):
        fault.cache_clear()
        replaced("rms_norm", wrong)
        with Model(path) as model:
            assert on(model, "rms_norm") == {"reference:0"}


def test_rows_stored_wrongly(path: Path, replaced: Callable[[str, Add], None]) -> None:
    add = compiling.add

    def swapped(p: Any, node: Any, at: Any) -> None:
        add(p, replace(node, inputs=node.inputs[::-1]), at)
    for wrong in (swapped, lambda p, node, at: None):
        fault.cache_clear()
        replaced("kv_write", wrong)
        with pytest.raises(UnsupportedOp, match="computes kv_write wrongly"):
            Model(path, strict=True)
    replaced("kv_write", add)
    fault.cache_clear()
    Model(path, strict=True).close()


def test_a_kernel_that_does_not_compile(path: Path, replaced: Callable[[str, Add], None]) -> None:
    def refuse(p: Any, node: Any, at: Any) -> None:
        raise UnsupportedOp("no such instruction", node=node.name, device="cpu:0")
    replaced("rope", refuse)
    with Model(path) as model:
        assert on(model, "rope") == {"reference:0"}


def test_without_memory_for_a_trial(path: Path, monkeypatch: pytest.MonkeyPatch,
                                    caplog: pytest.LogCaptureFixture) -> None:
    """A device takes no work from others then. What it must do raises. Neither is remembered."""
    with Model(path) as model:
        blueprint = model.engine.plan.blueprint
    names = {v: name for name, v in blueprint.graph.inputs.items()}
    tried = kernels.Kernels(names, blueprint.layout, BackendOptions())
    device = next(d for d in blueprint.devices if d.name == "cpu:0")
    node = next(n for n in blueprint.graph.nodes if n.op == "linear")
    fault.cache_clear()

    def full(device: Device, nbytes: int, use: str, row_bytes: int = 1) -> Buffer:
        raise OutOfMemory(device=device.name, requested=nbytes, free=0, hint="it's a test")

    with monkeypatch.context() as patch:
        patch.setattr(backend_of("cpu"), "alloc", full)
        for _ in range(2):
            assert not tried.could_take(device, node)
        with pytest.raises(OutOfMemory):
            tried.runs(device, node)
    (text,) = warnings(caplog)
    assert "cpu:0 has too little free memory" in text
    assert tried.could_take(device, node) and tried.runs(device, node)


def test_a_full_card_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to stream weights through it, nor for what the host lacks."""
    null: Any = backend_of("null")

    def full(device: Device, nbytes: int, use: str, row_bytes: int = 1) -> Buffer:
        raise OutOfMemory(device=device.name, requested=nbytes, free=0, hint="it's a test")

    def supports(device: Device, node: Node) -> bool:
        return not device.is_host or node.op != "glu"

    monkeypatch.setattr(null, "alloc", full)
    monkeypatch.setattr(null, "free_bytes", lambda device: (1 << 40) * device.is_host)
    monkeypatch.setattr(null, "supports", supports)
    host = Device("null:9", "a host", 1 << 40, 5e10, 1e12, is_host=True, is_pretend=True)
    card = Device("null:0", "a card", 1 << 30, 1e12, 1e14, link_bandwidth=2e10)
    shape = Shape("llama", n_layers=2, n_embd=256, n_heads=4, n_kv_heads=4, k_dim=64, n_rot=64,
                  n_ff=512, n_vocab=300)
    made = make_blueprint(graph_of(paper_file(shape, "Q8_0")), Limits(512, 8, 1, 32, 32, 32),
                          KVLayout(32, 32, "F16", "F16"), PlanOptions([card, host], probe=True))
    assert made.streamed is None
    assert {d.name for n, (d, _) in made.device_of.items() if n.op == "glu"} == {"reference:0"}
    assert {d.name for n, (d, _) in made.device_of.items() if n.op != "glu"} == {"null:9"}


def test_strict(path: Path, sabotage: Sabotage) -> None:
    sabotage("linear", only="Q8_0")
    for _ in range(2):
        with pytest.raises(UnsupportedOp) as caught:
            Model(path, strict=True)
        assert caught.value.device == "cpu:0" and caught.value.hint
        assert "linear" in caught.value.message and "Q8_0" in caught.value.message


def test_trusted(path: Path, sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage("rms_norm")
    monkeypatch.setenv("UNLADEN_PROBE", "0")
    with Model(path, strict=True) as model:
        assert on(model, "rms_norm") == {"cpu:0"}
    assert fault.cache_info().currsize == 0


def test_an_op_without_a_bound_is_trusted(path: Path, monkeypatch: pytest.MonkeyPatch,
                                          sabotage: Sabotage) -> None:
    monkeypatch.delattr(RmsNorm, "error_bound")
    sabotage("rms_norm")
    with Model(path, strict=True) as model:
        assert on(model, "rms_norm") == {"cpu:0"}


def test_a_sample_stands_for_its_likes(path: Path) -> None:
    with Model(path) as model:
        blueprint = model.engine.plan.blueprint
    names = {v: name for name, v in blueprint.graph.inputs.items()}
    (device,) = (d for d in blueprint.devices if d.name == "cpu:0")
    by_op: dict[str, set[Sample]] = {}
    for node in blueprint.graph.nodes:
        formats = {role: str(backend_of(device.name).weight_format(device, node, w))
                   for role, w in node.weights.items()}
        by_op.setdefault(node.op, set()).add(Sample.of(node, formats, names, blueprint.layout))
    assert len(by_op["attention"]) == len(by_op["kv_write"]) == 1
    assert len(by_op["linear"]) == 5, "q k v, their output, gate and up, down, logits"
    for samples in by_op.values():
        for sample in samples:
            assert fault(device, BackendOptions(), sample, "") is None
            assert all(np.prod(shape) <= 64 * 512 for _, shape, _ in sample.weights)


def test_kernels_of_every_level(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unladen._native import cpu
    for level in cpu.levels():
        monkeypatch.setenv("UNLADEN_CPU_ISA", level)
        backend = CpuBackend()
        with monkeypatch.context() as patch:
            for module in (kernels, probe):
                patch.setattr(module, "backend_of", lambda name, b=backend: b)
            fault.cache_clear()
            with Model(path) as model:
                for node in model.engine.plan.blueprint.graph.nodes:
                    known = kernels.Kernels(
                        {v: n for n, v in model.engine.plan.blueprint.graph.inputs.items()},
                        model.engine.plan.blueprint.layout, BackendOptions(), strict=True)
                    assert known.runs(backend.open("cpu", BackendOptions()), node)
