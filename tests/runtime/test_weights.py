"""Weights on their devices: mapped, copied or converted."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stub_driver.stub import installed
from tiny_model import write_tiny
from tiny_plan import Tiny, open_tiny
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device
from unladen.errors import InvalidArgument, UnsupportedOp
from unladen.graph.graph import Node, Weight
from unladen.quants import dequantize, get, packer_of, tiles
from unladen.runtime import loading
from unladen.runtime.weights import load
from unladen.schedule.needs import Need, needs_of
from unladen.storage.mapping import FileMapping

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


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """One in the host's memory, and one whose driver has pinned memory."""
    if request.param == "cpu":
        yield CPU
    else:
        with installed("cuda"):
            yield backend_of("cuda").open("cuda", BackendOptions())


@pytest.mark.parametrize(("quant", "weight"), [
    ("Q4_K", Weight("w", (96, 512), "Q4_K")), ("Q6_K", Weight("w", (6, 32, 256), "Q6_K")),
    ("Q8_0", Weight("w", (64, 192), "Q8_0", first_row=32, n_rows_of_tensor=128)),
    ("Q4_0", Weight("w", (64, 192), "Q4_0", first_col=64, n_cols_of_tensor=320)),
    ("F16", Weight("w", (80, 128), "F16"))])
@pytest.mark.parametrize("native", [True, False])
def test_tiles_are_made_in_pieces(device: Device, quant: str, weight: Weight, native: bool,
                                  tmp_path: Path, rng: np.random.Generator,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gives a whole tensor, some rows or some columns, to native code or to NumPy."""
    monkeypatch.setattr(loading, "PIECE_BYTES", 10_000)
    if not native:
        monkeypatch.setattr(tiles.Layout, "words", lambda layout, block_bytes: None)
    kind, n_cols = get(quant), weight.n_cols_of_tensor or weight.shape[-1]
    n_rows = weight.n_rows_of_tensor or weight.n_elements // weight.shape[-1]
    path = tmp_path / "tensor"
    path.write_bytes(rng.bytes(n_rows * kind.row_bytes(n_cols)))
    with path.open("rb") as file:
        tensor = np.frombuffer(FileMapping(file.fileno()), np.uint8)
    need = Need(device, weight, quant + tiles.SUFFIX, mapped=False)
    ((_, placed),) = load([need], lambda key: tensor).items()
    blocks = tensor.reshape(n_rows, -1, kind.block_bytes)
    first, n = weight.first_col // kind.block_size, weight.shape[-1] // kind.block_size
    some = blocks[weight.first_row:][:weight.n_elements // weight.shape[-1], first:first + n]
    made = backend_of(device.name).read(placed.buffer, some.size, placed.offset)
    np.testing.assert_array_equal(made, tiles.layout_of(kind).pack(np.ascontiguousarray(some)))


def test_tiles_take_no_second_copy(device: Device, rng: np.random.Generator,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PIECE_BYTES", 100_000)
    weight = Weight("w", (2048, 4096), "Q4_K")
    tensor = rng.integers(0, 256, weight.nbytes_in("Q4_K"), dtype=np.uint8)
    backend = backend_of(device.name)
    packer = packer_of("Q4_K", "Q4_K/tiles", weight.shape)
    assert packer is not None
    buffer = backend.alloc(device, tensor.size, "weights", packer.band_bytes)
    tracemalloc.start()
    try:
        loading.fill_packed(backend, buffer, packer.rows(tensor), packer, is_host=device.is_host)
        assert tracemalloc.get_traced_memory()[1] < tensor.size // 5
    finally:
        tracemalloc.stop()
    some = replace(packer, n_rows=16)
    last = np.empty(packer.band_bytes, np.uint8)
    some.pack(packer.rows(tensor)[-16:], last)
    np.testing.assert_array_equal(backend.read(buffer, last.size, tensor.size - last.size), last)


def test_a_tensor_that_was_cut_short(device: Device) -> None:
    need = Need(device, Weight("w", (32, 256), "Q4_K"), "Q4_K/tiles", mapped=False)
    with pytest.raises(InvalidArgument, match=r"4607 bytes aren't 32 rows of 144 bytes in Q4_K"):
        load([need], lambda key: np.zeros(32 * 144 - 1, np.uint8))
