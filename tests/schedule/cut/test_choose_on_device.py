"""Ops that choose among the logits are on the logits' device, if that device has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiny_model import N_VOCAB, write_tiny
from unladen import Model
from unladen.backends import backend_of
from unladen.backends.base import Device
from unladen.graph.graph import Node
from unladen.schedule.cut.choose_on_device import MAX_CANDIDATES


@pytest.fixture
def path(tmp_path: Path, rng: object) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", rng, context=64)  # type: ignore[arg-type]


def test_where_they_stand(path: Path) -> None:
    both = {"argmax": 1, "top_k": min(N_VOCAB, MAX_CANDIDATES)}
    for devices, n_best, ahead, options in (
            (["reference"], both, True, {}), (["cpu"], {"argmax": 1}, False, {}),
            (["null:0"], both, False, {}),
            (["null:0", "cpu"], {"argmax": 1}, False, {"head_device": "cpu"}),
            (["reference:0", "reference:1"], both, False, {"tensor_split": [1, 1]})):
        with Model(path, devices=devices, **options) as model:
            plan = model.engine.plan
            assert (plan.n_best, plan.runs_ahead) == (n_best, ahead), devices
            where = {n.op: d.name for n, (d, _) in plan.blueprint.device_of.items()}
            assert {where[op] for op in n_best} <= {where["linear"]}
            assert {"logits"} <= set(plan.blueprint.graph.outputs)


def test_a_device_that_lacks_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a device lacks such an op, the op is left out: no fallback, no report."""
    backend = backend_of("reference")
    supports = backend.supports

    def without(device: Device, node: Node) -> bool:
        return node.op != "argmax" and supports(device, node)
    monkeypatch.setattr(backend, "supports", without)
    with Model(path, devices=["reference"], strict=True) as model:
        plan = model.engine.plan
        assert set(plan.n_best) == {"top_k"} and not plan.runs_ahead
        assert model.generate([5, 6], max_tokens=3, temperature=0.0).stop_reason
