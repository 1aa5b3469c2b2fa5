"""Every fallback is reported once, with a hint; ``strict`` makes it an error."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from tests.tiny_model import write_tiny

from tiny_plan import LAYOUT, LIMITS, Tiny, open_tiny
from unladen.backends import backend_of
from unladen.backends.base import Device
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Node, Weight
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions


@pytest.fixture
def q8(tmp_path: Path, rng: np.random.Generator) -> Tiny:
    return open_tiny(write_tiny(tmp_path / "q8.gguf", rng, quant="Q8_0"))


@pytest.fixture
def no_q8(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU with kernels for F32 alone."""
    monkeypatch.setattr(backend_of("cpu"), "weight_format", lambda device, node, weight: "F32")


def test_converted_weights(q8: Tiny, no_q8: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "unladen"):
        make_blueprint(q8.graph, LIMITS, LAYOUT, PlanOptions(("cpu:0", "cpu:1")))
    assert len(caplog.records) == 2, "once for each device"
    for record, device in zip(caplog.records, ("cpu:0", "cpu:1"), strict=True):
        for word in (device, "Q8_0", "linear", "F32", "hint: place them elsewhere"):
            assert word in record.message


def test_strict_about_weights(q8: Tiny, no_q8: None) -> None:
    message = "no kernel for Q8_0: .* as F32 for embed, linear"
    with pytest.raises(UnsupportedOp, match=message) as caught:
        make_blueprint(q8.graph, LIMITS, LAYOUT, PlanOptions(strict=True))
    assert caught.value.device == "cpu:0" and "override_tensor" in caught.value.hint
    assert caught.value.node in {n.name for n in q8.graph.nodes}


def test_strict_about_nothing(q8: Tiny) -> None:
    make_blueprint(q8.graph, LIMITS, LAYOUT, PlanOptions(strict=True, probe=True))


def test_an_op_that_is_missing(tiny: Tiny, monkeypatch: pytest.MonkeyPatch,
                               caplog: pytest.LogCaptureFixture) -> None:
    supports = backend_of("cpu").supports

    def without_rope(device: Device, node: Node) -> bool:
        return node.op != "rope" and supports(device, node)
    monkeypatch.setattr(backend_of("cpu"), "supports", without_rope)
    with caplog.at_level(logging.WARNING, "unladen"):
        make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions())
    (record,) = caplog.records
    for word in ("cpu:0", "rope", "reference:0", "hint"):
        assert word in record.message
    with pytest.raises(UnsupportedOp, match="cpu:0 can't run rope") as caught:
        make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions(strict=True))
    assert caught.value.hint


def test_layers_without_a_node_on_their_device_are_not_offloaded(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    options = PlanOptions(("null:0", "cpu:0"), PlaceOptions(n_gpu_layers=2, stream_weights=False))
    assert make_blueprint(tiny.graph, LIMITS, LAYOUT, options).offloaded()[0] == (
        "offloaded 2/4 layers to null:0")
    monkeypatch.setattr(backend_of("null"), "supports", lambda device, node: node.layer == 0)
    assert make_blueprint(tiny.graph, LIMITS, LAYOUT, options).offloaded()[0] == (
        "offloaded 1/4 layers to null:0")
    monkeypatch.setattr(backend_of("null"), "supports", lambda device, node: False)
    assert make_blueprint(tiny.graph, LIMITS, LAYOUT, options).offloaded() == []


def test_a_weight_that_one_node_wants_converted(tmp_path: Path, rng: np.random.Generator,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Tied embeddings: both nodes get the format that the stricter one needs."""
    from unladen.schedule.needs import needs_of
    tiny = open_tiny(write_tiny(tmp_path / "m.gguf", rng, quant="Q8_0"))
    table = next(n for n in tiny.graph.nodes if n.op == "embed")
    head = tiny.graph.nodes[-1]
    shared = Node(head.name, "linear", head.inputs, head.outputs, {"w0": table.weights["w"]})
    device = backend_of("cpu").open("cpu", PlanOptions().backend)

    def formats(_: object, node: Node, weight: Weight) -> str:
        return "F32" if node.op == "linear" else weight.quant
    for nodes in ((table, shared), (shared, table)):
        (need,) = needs_of(dict.fromkeys(nodes, device), use_mmap=True, format_of=formats)
        assert need.quant == "F32" and not need.mapped
