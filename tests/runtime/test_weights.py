"""Weights on their devices: mapped, copied or converted."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from tiny_plan import Tiny, open_tiny
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Node, Weight
from unladen.quants import dequantize
from unladen.runtime.weights import load
from unladen.schedule.needs import Need, needs_of

CPU = backend_of("cpu").open("cpu", BackendOptions())


def wanted(tiny: Tiny, *, use_mmap: bool) -> list[Need]:
    return needs_of(dict.fromkeys(tiny.graph.nodes, CPU), use_mmap=use_mmap)


def bytes_of(tiny: Tiny, placed_needs: list[Need]) -> dict[str, np.ndarray]:
    placed = load(placed_needs, lambda key: tiny.data(key.tensor))
    assert {key[:2] for key in placed} == {(CPU.name, name) for name in tiny.graph.weights()}
    return {name: dequantize(p.quant, backend_of("cpu").read(
        p.buffer, p.weight.nbytes_in(p.quant), p.offset), p.weight.shape)
        for (_, name, _), p in placed.items()}


@pytest.mark.parametrize("use_mmap", [True, False])
def test_every_weight_arrives(tiny: Tiny, use_mmap: bool) -> None:
    found = wanted(tiny, use_mmap=use_mmap)
    assert all(n.mapped == use_mmap for n in found)
    values = bytes_of(tiny, found)
    for name, info in tiny.file.tensors.items():
        assert np.array_equal(values[name], dequantize(info.quant, info.data, info.shape))


def test_mapped_weights_are_the_file(tiny: Tiny) -> None:
    placed = load(wanted(tiny, use_mmap=True), lambda key: tiny.data(key.tensor))
    for (_, name, _), p in placed.items():
        assert np.shares_memory(backend_of("cpu").read(p.buffer, 4), tiny.file.tensors[name].data)


def test_formats_without_a_kernel_are_converted_and_reported(
        tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    tiny = open_tiny(write_tiny(tmp_path / "q8.gguf", rng, quant="Q8_0"))

    def only_f32(device: Device, node: Node, weight: Weight) -> str:
        return "F32"
    monkeypatch.setattr(backend_of("cpu"), "weight_format", only_f32)
    with caplog.at_level(logging.WARNING, "unladen"):
        found = wanted(tiny, use_mmap=True)
    n_matrices = sum(len(w.shape) > 1 for w in tiny.graph.weights().values())
    (record,) = caplog.records
    assert "cpu:0 has no kernel for Q8_0" in record.message
    assert f"{n_matrices} tensors are kept as F32" in record.message
    assert {n.weight.name for n in found if n.mapped} == {
        name for name, info in tiny.file.tensors.items() if info.quant == "F32"}
    values = bytes_of(tiny, found)
    for name, info in tiny.file.tensors.items():
        assert np.array_equal(values[name], dequantize(info.quant, info.data, info.shape))


def test_format_that_a_device_does_not_take(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(device: Device, node: Node, weight: Weight) -> None:
        return None
    monkeypatch.setattr(backend_of("cpu"), "weight_format", nothing)
    with pytest.raises(UnsupportedOp, match="cpu:0 takes no F32 weights") as caught:
        wanted(tiny, use_mmap=True)
    assert caught.value.node == "token_embd" and caught.value.hint
