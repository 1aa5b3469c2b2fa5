"""The cuts of a graph, the values that cross them, and the ops that a device lacks."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from tiny_plan import N_LAYERS, Tiny
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device
from unladen.errors import UnsupportedOp
from unladen.graph import taps
from unladen.graph.graph import Graph, Node
from unladen.schedule.cut.segments import (
    ChangeStep,
    CopyStep,
    RunStep,
    Step,
    assign,
    inner_values,
    split,
)
from unladen.schedule.place import PlaceOptions, place

REFERENCE = backend_of("reference").open("reference", BackendOptions())


def cut(graph: Graph, *names: str, strict: bool = False, **options: object) -> list[Step]:
    devices = [backend_of(n).open(n, BackendOptions()) for n in names]
    placement = place(graph, devices, PlaceOptions(**options))  # type: ignore[arg-type]
    return split(graph, assign(graph, placement, [*devices, REFERENCE], strict=strict))


def check(graph: Graph, steps: list[Step]) -> None:
    """Check that every node runs once and in order, and that every value is on the devices that
    read it, copied once."""
    assert [n for s in steps if isinstance(s, RunStep) for n in s.nodes] == list(graph.nodes)
    present: set[tuple[object, str]] = set()
    before: Step | None = None
    last: RunStep | None = None
    changed: set[object] = set()
    for step in steps:
        if isinstance(step, CopyStep):
            assert (step.value, step.source.name) in present
            assert (step.value, step.target.name) not in present
            present.add((step.value, step.target.name))
        elif isinstance(step, ChangeStep):
            # The value was made by the last run, and nothing has read or copied it since.
            made = before if isinstance(before, RunStep) else last
            assert made is not None and made.device == step.device
            assert step.value in made.nodes[-1].outputs
            assert {d for v, d in present if v is step.value} == {step.device.name}
            changed.add(step.value)
        else:
            assert not (isinstance(before, RunStep) and before.device == step.device)
            for node in step.nodes:
                for value in node.inputs:
                    if value not in graph.inputs.values():
                        assert (value, step.device.name) in present, (node, value)
                present |= {(v, step.device.name) for v in node.outputs}
            last = step
        before = step
    assert changed == graph.changed


def test_one_device_is_one_run(tiny: Tiny) -> None:
    (step,) = cut(tiny.graph, "cpu:0")
    assert isinstance(step, RunStep) and step.nodes == tuple(tiny.graph.nodes)


@pytest.mark.parametrize("names", [("cpu:0",), ("null:0", "null:1"), ("null:0", "cpu:0"),
                                   ("cpu:0", "null:0")])
def test_changed_values(tiny: Tiny, names: tuple[str, ...], rng: np.random.Generator) -> None:
    """Each value is changed between the run that makes it and the runs that read it."""
    known = list(taps.points(tiny.graph))
    for wanted in (["blk.1.ffn_residual"], [known[0]], known[-1:], known,
                   rng.choice(known, 9, replace=False).tolist()):
        graph = taps.mark(tiny.graph, [], wanted)
        steps = cut(graph, *names)
        check(graph, steps)
        assert sum(isinstance(s, ChangeStep) for s in steps) == len(wanted)
        assert not frozenset().union(*inner_values(graph, steps).values()) & graph.changed


@pytest.mark.parametrize("border", range(1, N_LAYERS))
def test_copies_at_the_border_only(tiny: Tiny, border: int) -> None:
    steps = cut(tiny.graph, "cpu:0", "cpu:1", tensor_split=[border, N_LAYERS - border])
    check(tiny.graph, steps)
    copied = {s.value.name for s in steps if isinstance(s, CopyStep)}
    assert copied == {"rope_table", f"blk.{border - 1}.ffn_residual"}
    assert sum(isinstance(s, RunStep) for s in steps) == 2


def test_values_that_nothing_outside_reads(tiny: Tiny) -> None:
    whole = cut(tiny.graph, "cpu:0")
    (all_of_them,) = inner_values(tiny.graph, whole).values()
    read = {v for n in tiny.graph.nodes for v in n.inputs}
    outputs = set(tiny.graph.outputs.values())
    assert all_of_them == {v for n in tiny.graph.nodes for v in n.outputs if v in read} - outputs
    steps = cut(tiny.graph, "cpu:0", "cpu:1", tensor_split=[1, N_LAYERS - 1])
    first, second = inner_values(tiny.graph, steps).values()
    assert {v.name for v in all_of_them - first - second} == {"rope_table", "blk.0.ffn_residual"}
    # Both runs are on the same device: nothing is copied.
    (run,) = (s for s in whole if isinstance(s, RunStep))
    halves = [replace(run, nodes=run.nodes[:10]), replace(run, nodes=run.nodes[10:])]
    first, second = inner_values(tiny.graph, halves).values()
    crossing = {v for n in halves[0].nodes for v in n.outputs} & {
        v for n in halves[1].nodes for v in n.inputs}
    assert crossing and first | second == all_of_them - crossing


def test_there_and_back(tiny: Tiny) -> None:
    steps = cut(tiny.graph, "cpu:0", "cpu:1", split_mode="none",
                override_tensor={"ffn_(gate|up|down)": "cpu:1"})
    check(tiny.graph, steps)
    copies = [s for s in steps if isinstance(s, CopyStep)]
    # Each layer's norm goes out; the product comes back (the activation between stays on its
    # device).
    assert {c.target.name for c in copies} == {"cpu:0", "cpu:1"}


class Lacking:
    """The null backend without some ops."""

    def __init__(self, *ops: str) -> None:
        self.ops = ops
        self.whole = backend_of("null").supports

    def supports(self, device: Device, node: Node) -> bool:
        return node.op not in self.ops and self.whole(device, node)


def _lack(monkeypatch: pytest.MonkeyPatch, backend: str, *ops: str) -> None:
    lacking = Lacking(*ops)
    monkeypatch.setattr(backend_of(backend), "supports", lacking.supports)


def test_missing_op_goes_elsewhere_and_is_reported_once(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    _lack(monkeypatch, "cpu", "rms_norm")
    with caplog.at_level(logging.WARNING, "unladen"):
        steps = cut(tiny.graph, "cpu:0")
    check(tiny.graph, steps)
    for step in steps:
        if isinstance(step, RunStep):
            on_reference = step.device.name == "reference:0"
            assert all((n.op == "rms_norm") == on_reference for n in step.nodes)
    (record,) = caplog.records
    assert "cpu:0 lacks the op (rms_norm): it runs on reference:0" in record.message


def test_many_missing_ops_are_one_line(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    missing = ("rms_norm", "linear", "embed", "rope", "add")
    _lack(monkeypatch, "cpu", *missing)
    cut(tiny.graph, "cpu:0")
    (record,) = caplog.records
    found = [name for name in missing if any(n.op == name for n in tiny.graph.nodes)]
    assert f"cpu:0 lacks {len(found)} ops (" in record.message and ", ...)" in record.message
    assert "they run on reference:0, much slower (hint: --strict stops here" in record.message


def test_another_device_in_use_comes_before_the_reference(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    _lack(monkeypatch, "null", "rms_norm")
    steps = cut(tiny.graph, "cpu:0", "null:0")
    check(tiny.graph, steps)
    assert {s.device.name for s in steps if isinstance(s, RunStep)} == {"cpu:0", "null:0"}


def test_nodes_of_one_cache_stay_together(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    _lack(monkeypatch, "cpu", "attention")
    steps = cut(tiny.graph, "cpu:0")
    check(tiny.graph, steps)
    where: dict[int, set[Device]] = {}
    for step in steps:
        if isinstance(step, RunStep):
            for node in step.nodes:
                if node.state is not None:
                    where.setdefault(node.state.layer, set()).add(step.device)
    assert all(devices == {REFERENCE} for devices in where.values()) and len(where) == N_LAYERS
    # Only the attention is reported as missing.
    (record,) = caplog.records
    assert "cpu:0 lacks the op (attention): it runs" in record.message


def test_strict(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut(tiny.graph, "cpu:0", strict=True)
    _lack(monkeypatch, "cpu", "rope")
    with pytest.raises(UnsupportedOp, match="cpu:0 can't run rope") as caught:
        cut(tiny.graph, "cpu:0", strict=True)
    assert caught.value.device == "cpu:0" and caught.value.node == "blk.0.rope_q"
    assert caught.value.hint


def test_op_that_nobody_runs(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    _lack(monkeypatch, "cpu", "rope")
    _lack(monkeypatch, "reference", "rope")
    with pytest.raises(UnsupportedOp, match="no device runs rope"):
        cut(tiny.graph, "cpu:0")
