"""Reports and pictures of plans, and devices from a text."""

from __future__ import annotations

import json
import logging
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parity import recipes
from tiny_model import write_tiny
from tiny_plan import N_LAYERS
from unladen import Model
from unladen.api import plan
from unladen.backends.base import Device
from unladen.errors import InvalidArgument, OutOfMemory
from unladen.schedule import fit
from unladen.schedule.place import PlaceOptions, place
from unladen.schedule.search import device_speed
from unladen.schedule.show import picture
from unladen.schedule.show.pretend import pretended

GIB = 2**30


@pytest.fixture(autouse=True)
def slow_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of fixed low speed, so that the plans don't depend on the machine."""
    monkeypatch.setattr(device_speed, "measure", lambda name: (10e9, 50e9))


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


def test_a_line_for_each_group_of_layers(path: Path, make_model: Callable[..., Path]) -> None:
    windowed = make_model("granite_swa", n_layers=3, keys={
        "granite_swa.context_length": 512, "granite_swa.attention.sliding_window": 40,
        "granite_swa.attention.sliding_window_pattern": [True, False, True]})
    report = plan(windowed, devices=["cpu"], max_seqs=2, batch_size=32, cache_tokens=512)
    whole, window = report.cache_groups()
    assert (whole.window, whole.n_layers, whole.n_blocks) == (0, 1, 16)
    # Two sequences have 2 blocks of the window and 4 beside these; a step writes one.
    assert (window.window, window.n_layers, window.n_blocks) == (40, 2, 13)
    assert window.nbytes * 16 == 2 * 13 * whole.nbytes
    assert whole.nbytes + window.nbytes == sum(m.kv_bytes for m in report.devices)
    assert [line.split(",")[0] for line in report.caches()] == [
        "layers that see all tokens (1): 16 cache blocks of 32 tokens",
        "layers that see a window of 40 tokens (2): 13 cache blocks of 32 tokens"]
    assert [g["bytes"] for g in report.facts()["caches"]] == [whole.nbytes, window.nbytes]
    assert plan(path, devices=["cpu"]).caches() == [], "one group is what the table says already"


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
    with pytest.raises(InvalidArgument, match="n_gpu_layers must be at least -1, got -77"):
        plan(path, pretend="8GB", n_gpu_layers=-77)


HOSTILE = (
    '"><script>alert(1)</script>', "a & b < c > d ' \"", "bell \x07, null \x00, escape \x1b[31m",
    "\udcff\udc80 bytes that were no UTF-8", "\u202etxt.exe\u2066", "\ufffe\uffff", "x" * 5000,
    "\U0001f999 \u4f60\u597d", "]]>", "<!--", "&amp;&#0;", "")


@pytest.mark.parametrize("text", HOSTILE)
def test_pictures_of_hostile_names(path: Path, text: str, tmp_path: Path) -> None:
    """Pictures are well-formed and have only their own elements, whatever names files and devices
    have."""
    report = plan(path, pretend="24GB", n_gpu_layers=3)
    blueprint = report.blueprint
    memory = fit.MemoryPlan([replace(m, device=replace(m.device, description=text))
                             for m in blueprint.memory.devices])
    hostile = replace(report, title=text, blueprint=replace(blueprint, memory=memory))
    target = tmp_path / "plan.svg"
    target.write_text(hostile.svg(), encoding="utf-8")
    root = ET.parse(target).getroot()
    assert {e.tag.rpartition("}")[2] for e in root.iter()} == {"svg", "rect", "text", "title", "g"}
    shown = "".join(root.itertext())
    assert "context of" in shown and not any(unicodedata.category(c) in ("Cc", "Cs") or c in
                                             "\u202e\u2066" for c in shown if c not in "\n\t\r")
    assert all(len(e.text or "") < 200 for e in root.iter("{http://www.w3.org/2000/svg}text"))


def test_a_legend_explains_what_is_there(path: Path) -> None:
    report = plan(path, pretend="2x24GB", n_gpu_layers=3)
    words = [e.text or "" for e in ET.fromstring(report.svg()).iter(
        "{http://www.w3.org/2000/svg}text")]
    used = {name for field, name, _, _ in picture.PARTS
            if any(getattr(m, field) for m in report.devices)}
    assert {"weights", "arena", "ring"} <= used
    for _, name, _, meaning in picture.PARTS:
        assert (f"{name}: {meaning}" in words) == (name in used)
    assert any("Pretended devices are not there" in w for w in words)
    assert sum("pretended, " in w for w in words) == 2
    with Model(path) as model:
        plain = model.engine.plans._repr_svg_()
    assert "retended" not in plain and "ring:" not in plain and "too much" not in plain


@pytest.mark.parametrize("name", ["bert-dense", "mamba-dense"])
def test_pictures_of_models_without_a_head_or_cache(shared: Path, name: str, tmp_path: Path
                                                    ) -> None:
    report = plan(recipes.make(name, tmp_path).path, devices=["cpu"])
    titles = [t.text or "" for t in ET.fromstring(report.svg()).iter(
        "{http://www.w3.org/2000/svg}title")]
    assert "layer 0 on cpu:0" in titles
    assert ("output head on cpu:0" in titles) == (report.blueprint.main.ends()[1] != "")


def test_what_a_notebook_shows(path: Path) -> None:
    """A notebook shows one line for each object, and pictures of plans."""
    report = plan(path, pretend="24GB", n_gpu_layers=3)
    with Model(path, devices=["cpu"]) as model:
        made = model.engine.plans
        paper = made.blueprint.main
        things = [report, report.blueprint, made, made.main, paper, model.memory(), paper.graph,
                  paper.choice,
                  *paper.devices, *paper.steps, *paper.arenas.values(),
                  place(paper.graph, paper.devices, PlaceOptions())]
        for thing in things:
            assert 10 < len(repr(thing)) < 300 and "\n" not in repr(thing), type(thing)
        for thing in (report, report.blueprint, made):
            assert ET.fromstring(thing._repr_svg_()).tag.endswith("svg")
        shown: list[str] = []
        model.memory()._repr_pretty_(SimpleNamespace(text=shown.append), False)
        assert shown == [str(model.memory())]
    assert "fits" in repr(report) and "null:0 3, cpu:0 1 layers" in repr(report)
    assert "GiB" in repr(report.blueprint.devices[0])
    assert "memory unknown" in repr(Device("cuda:0", "a card", 0))
