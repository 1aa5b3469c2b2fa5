"""Reports and pictures of plans, and devices from a text."""

from __future__ import annotations

import json
import logging
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from schedule.conftest import N_LAYERS
from tiny_model import write_tiny
from unladen import Model
from unladen.api import plan
from unladen.errors import InvalidArgument, OutOfMemory
from unladen.schedule import speed
from unladen.schedule.pretend import pretended

GIB = 2**30


@pytest.fixture(autouse=True)
def slow_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is worth its while here doesn't depend on the machine."""
    monkeypatch.setattr(speed, "measure", lambda name: (10e9, 50e9))


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", rng, n_layers=N_LAYERS)


@pytest.mark.parametrize(("text", "expected"), [
    ("24GB", [(24 * GIB, 1e12, 25e9)]), ("2x8GB", [(8 * GIB, 1e12, 25e9)] * 2),
    ("24GB:1000GBs,8GB:300GBs:12GBs", [(24 * GIB, 1e12, 25e9), (8 * GIB, 3e11, 12e9)]),
    ("512MiB:64", [(512 << 20, 64e9, 25e9)]), ("1.5g:2e", None), ("", None), ("0x8GB", None),
    ("8", None), ("8GB:0", None), ("-8GB", None), ("8GB,,8GB", None), ("nanGB", None)])
def test_pretended_devices(text: str, expected: list[tuple[int, float, float]] | None) -> None:
    if expected is None:
        with pytest.raises(InvalidArgument, match="pretend"):
            pretended(text)
        return
    devices = pretended(text)
    assert [(d.memory_bytes, d.bandwidth, d.link_bandwidth) for d in devices] == expected
    assert [d.name for d in devices] == [f"null:{i}" for i in range(len(devices))]


def test_facts_and_picture(path: Path) -> None:
    report = plan(path, pretend="2x24GB", n_gpu_layers=3)
    facts = json.loads(json.dumps(report.facts()))
    assert facts["fits"] and facts["layers"] == ["null:0", "null:0", "null:1", "cpu:0"]
    assert [d["n_layers"] for d in facts["devices"]] == [2, 1, 1]
    for d in facts["devices"]:
        needed = sum(d[f"{what}_bytes"] for what in ("weight", "kv", "arena", "ring", "staging"))
        assert d["left_bytes"] == d["free_bytes"] - needed
    assert facts["streamed_from_n_tokens"] > 1
    assert sum(d["ring_bytes"] for d in facts["devices"]) > 0
    assert (facts["embeddings"], facts["head"]) == ("null:0", "cpu:0")
    picture = ET.fromstring(report.svg())
    titles = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}title")]
    for i, name in enumerate(facts["layers"]):
        assert f"layer {i} on {name}" in titles
    assert "embeddings on null:0" in titles and "output head on cpu:0" in titles


def test_too_small_is_said_and_nothing_is_allocated(path: Path) -> None:
    report = plan(path, pretend="1MB", n_gpu_layers="all", embed_device="cpu", head_device="cpu")
    assert not report.fits() and report.left["null:0"] < 0 and "too much" in report.svg()
    with pytest.raises(OutOfMemory) as caught:
        Model(path, devices=[*pretended("1MB"), "cpu"], n_gpu_layers="all")
    assert caught.value.device == "null:0"


def test_planned_and_taken(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "unladen"):
        model = Model(path, devices=[*pretended("24GB,8GB"), "cpu"], n_gpu_layers=3)
    layers, more, streamed, ends = (r.message for r in caplog.records)
    assert (layers, more, ends) == (
        "offloaded 2/4 layers to null:0", "offloaded 1/4 layers to null:1",
        "embeddings on null:0, output head on cpu:0")
    assert "null:1 computes products of 1 more layers" in streamed
    with model:
        assert model.gpu_layers == 3
        for memory in model.memory().devices:
            assert memory.taken_bytes == memory.allocated_bytes
        assert "allocated" in str(model.memory())


def test_either_devices_or_pretended_ones(path: Path) -> None:
    with pytest.raises(InvalidArgument, match="pretend"):
        plan(path, pretend="8GB", devices=["cpu"])
    with pytest.raises(InvalidArgument, match="n_gpu_layers=77"):
        plan(path, pretend="8GB", n_gpu_layers=77)
