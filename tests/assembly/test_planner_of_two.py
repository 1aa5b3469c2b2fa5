"""A model of two graphs under running requests: both move, and memory is given up for both."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.engine.faults import faults

from tiny_model import N_VOCAB
from tiny_plan import fill
from two_graphs import DRAFT, N_LAYERS, write_pair
from unladen import Model
from unladen.assembly.ladder import Wishes
from unladen.assembly.planner import Planner
from unladen.assembly.sources import Sources
from unladen.cli.plan import _show
from unladen.errors import OutOfMemory
from unladen.gguf import open_gguf
from unladen.models import load_architecture
from unladen.schedule.show.report import PlanReport
from unladen.types import MAIN

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 30}
EXACT: dict[str, Any] = {"kv_type": "f32", "devices": ["cpu"], "context_size": 256}


@pytest.fixture(autouse=True)
def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn probes off: they allocate and compute, but only once in a process."""
    monkeypatch.setenv("UNLADEN_PROBE", "0")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"), np.random.default_rng())


@pytest.fixture
def prompt(rng: np.random.Generator) -> list[int]:
    return list(rng.integers(3, N_VOCAB, 40).tolist())


class Two(Model):
    """A model whose plans have a second graph, from the file ``draft``. The engine doesn't run the
    second graph: tests run it by hand."""

    def __init__(self, paths: Mapping[str, Path], **parameters: Any) -> None:
        self._second = open_gguf(paths[DRAFT], key=DRAFT)
        super().__init__(paths[MAIN], **parameters)

    def _open(self, wishes: Wishes, on_oom: Sequence[str]) -> None:
        self.architecture = load_architecture(self._file)
        self._planner = Planner(
            Sources(self._file, self._second),
            {MAIN: self.architecture, DRAFT: load_architecture(self._second)}, wishes, on_oom)
        self._engine = self._planner.load(self._n_draft)

    def second(self, tokens: list[int], start: int = 0) -> npt.NDArray[np.float32]:
        """The second graph's logits of the last of ``tokens``; those before ``start`` are in its
        cache."""
        plan = self.engine.plans.members[DRAFT]
        fill(plan, tokens[start:], start, (2, 0), outputs=(len(tokens) - start - 1,))
        plan.run()
        return plan.output("logits")[0].copy()

    def devices_of(self, graph: str) -> set[str]:
        found = self.engine.plans.blueprint.members[graph].device_of.values()
        return {d.name for d, _ in found}


@pytest.fixture
def expected(paths: Mapping[str, Path], prompt: list[int]) -> Iterator[list[int]]:
    """What the model writes without a second graph."""
    with Model(paths[MAIN], **EXACT) as model:
        yield model.generate(prompt, **GREEDY).tokens


def test_a_second_graph_changes_nothing(paths: Mapping[str, Path], prompt: list[int],
                                        expected: list[int]) -> None:
    with Two(paths, **EXACT) as model, Model(paths[DRAFT], **EXACT) as other:
        stream = model.stream(prompt, **GREEDY)
        for i, _ in enumerate(stream):
            if i % 3 == 0:  # between two steps of the model
                model.second(prompt)
        assert stream.result.tokens == expected
        off = np.abs(model.second(prompt) - other.logits(prompt)[-1]).max()
        assert off < 1e-4 * np.abs(model.second(prompt)).max()
        (memory,) = model.memory().devices
        assert memory.taken_bytes == memory.allocated_bytes
        with Model(paths[MAIN], **EXACT) as single:
            (alone,) = single.memory().devices
        assert memory.kv_bytes == alone.kv_bytes * (1 + N_LAYERS[DRAFT] / N_LAYERS[MAIN])


def test_once_around(paths: Mapping[str, Path], prompt: list[int], expected: list[int]) -> None:
    """Each move takes both graphs along, with their caches."""
    with Two(paths, **EXACT, speculate=False) as model:
        model.second(prompt[:-1])
        wanted = model.second(prompt, len(prompt) - 1)
        stream = model.stream(prompt, **GREEDY)
        for devices in (["cpu:0", "cpu:1"], ["reference:0"], ["cpu:1"], ["cpu:0"]):
            next(stream)
            model.place(devices=devices)
            assert model.devices_of(MAIN) | model.devices_of(DRAFT) == set(devices)
            got = model.second(prompt, len(prompt) - 1)
            assert np.abs(got - wanted).max() < 1e-4 * np.abs(wanted).max()
        assert [*stream] and stream.result.tokens == expected


def test_what_stays_is_not_allocated_again(paths: Mapping[str, Path]) -> None:
    with faults("cpu") as fault, Two(paths, **{**EXACT, "devices": ["cpu", "cpu:1"]},
                                     n_gpu_layers=2, stream_weights=False) as model:
        before = fault.live_bytes()
        with fault.failing_at(()):
            model.place(n_gpu_layers=2)
            n_staging = len(model.engine.plans.blueprint.staging_bytes())
            assert fault.n_allocations == 2 + n_staging, (
                "an arena on each device, for both graphs, and what crossings go through")
        assert fault.live_bytes() == before


def test_allocations_of_a_move(paths: Mapping[str, Path], prompt: list[int], expected: list[int],
                               rng: np.random.Generator) -> None:
    """Whichever allocation fails, both graphs go on where they were and no memory is left
    behind."""
    elsewhere: dict[str, Any] = {"devices": ["cpu", "cpu:1"], "n_gpu_layers": 2}
    with faults("cpu") as fault, Two(paths, **EXACT) as model:
        for _ in range(2):  # the first run measures the speed of the host
            with fault.failing_at(()):
                model.place(**elsewhere)
                n = fault.n_allocations
            model.place(devices=["cpu"], n_gpu_layers=0)
        wanted, before = model.second(prompt), fault.live_bytes()
        for k in sorted({0, n - 1, *rng.integers(0, n, 6).tolist()}):
            stream = model.stream(prompt, temperature=0.0, max_tokens=4)
            next(stream)
            with fault.failing_at({k}), pytest.raises(OutOfMemory):
                model.place(**elsewhere)
            assert fault.live_bytes() == before
            assert np.array_equal(model.second(prompt), wanted)
            assert [*stream] and stream.result.tokens == expected[:4]
        del stream
    assert fault.live_bytes() == 0


def test_every_rung_is_of_both(paths: Mapping[str, Path], prompt: list[int], expected: list[int]
                               ) -> None:
    place = {"devices": ["cpu", "cpu:1"], "n_gpu_layers": 3, "batch_size": 64, "kv_type": "f32",
             "context_size": 256, "cache_tokens": 256,
             "on_oom": ["ubatch", "kv:q8_0", "layers", "context"]}
    with faults("cpu") as fault, Two(paths, **place) as model:
        stream = model.stream(prompt, **GREEDY)
        next(stream)
        for _ in range(5):
            with fault.failing_at({0}):
                model.logits(prompt[:3])
        assert model.degradations == (
            "batch_size 64 -> 32", "kv_type f32 -> q8_0", "n_gpu_layers 3 -> 1",
            "n_gpu_layers 1 -> 0", "context_size 256 -> 128")
        for blueprint in model.engine.plans.blueprint.members.values():
            assert (blueprint.limits.n_tokens, blueprint.layout.k_type, blueprint.layout.n_blocks,
                    blueprint.n_offloaded()) == (32, "Q8_0", 4, 0)
        assert np.isfinite(model.second(prompt[:20])).all()
        assert [*stream] and len(stream.result.tokens) == len(expected)
        del stream
    assert fault.live_bytes() == 0


def test_too_little_for_both(paths: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that fits alone may not fit beside another; the error says how much each takes."""
    wanted = {**EXACT, "devices": ["null:0"], "context_size": 192, "cache_tokens": 192}
    with Two(paths, **wanted) as model:
        (memory,) = model.memory().devices
    monkeypatch.setenv("UNLADEN_NULL_MEMORY", str(memory.needed_bytes - 1))
    for name in paths:
        Model(paths[name], **wanted).close()
    with pytest.raises(OutOfMemory) as caught:
        Two(paths, **wanted)
    assert caught.value.requested == memory.needed_bytes
    assert caught.value.graphs.keys() == {MAIN, DRAFT}
    assert max(caught.value.graphs.values()) < memory.needed_bytes
    Two(paths, **wanted, on_oom=["ubatch"]).close()


def test_tapped_and_back(paths: Mapping[str, Path], prompt: list[int], expected: list[int]) -> None:
    with faults("cpu") as fault, Two(paths, **EXACT) as model:
        wanted, before = model.second(prompt), fault.live_bytes()
        with model.tap(["blk.1.ffn_out"]) as tap:
            assert model.generate(prompt, **GREEDY).tokens == expected
            assert len(tap["blk.1.ffn_out"])
            assert np.array_equal(model.second(prompt), wanted)
        assert fault.live_bytes() == before
        assert np.array_equal(model.second(prompt), wanted)
        assert model.generate(prompt, **GREEDY).tokens == expected


def test_options_name_files(paths: Mapping[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    with Two(paths, **{**EXACT, "devices": ["cpu", "cpu:1"]},
             override_tensor={"^draft:": "cpu:1", "^drat:": "cpu"}) as model:
        assert model.devices_of(DRAFT) >= {"cpu:1"} and "cpu:0" in model.devices_of(MAIN)
        weights = {d.name for n, (d, _) in model.engine.plans.blueprint.members[
            DRAFT].device_of.items() if n.weights}
        assert weights == {"cpu:1"}
    (message,) = [r.getMessage() for r in caplog.records]
    assert "'^drat:' is found in no tensor" in message


def test_reported(paths: Mapping[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, picture and table have both graphs and both files."""
    with Two(paths, **{**EXACT, "devices": ["null:0", "cpu"]}, n_gpu_layers=1) as model:
        made = model.engine.plans.blueprint
        report = PlanReport.of(made, "two.gguf", 256, files={DRAFT: "guess.gguf"})
        assert "PlanSet: main, draft:" in repr(model.engine.plans)
        ET.fromstring(model.engine.plans._repr_svg_())
    facts = json.loads(json.dumps(report.facts()))
    assert [(g["name"], len(g["layers"])) for g in facts["graphs"]] == [*N_LAYERS.items()]
    assert facts["layers"] == facts["graphs"][0]["layers"]
    assert {f["key"]: f["name"] for f in facts["files"]} == {MAIN: "two.gguf",
                                                             DRAFT: "guess.gguf"}
    for f in facts["files"]:
        assert f["mapped_bytes"] + f["copied_bytes"] >= sum(
            t.nbytes for t in open_gguf(paths[f["key"]]).tensors.values())
    titles = [t.text or "" for t in ET.fromstring(report.svg()).iter(
        "{http://www.w3.org/2000/svg}title")]
    assert {"layer 0 on null:0", "draft: layer 0 on null:0", "draft: layer 1 on cpu:0",
            "draft: output head on cpu:0"} <= set(titles)
    _show(report)
    shown = " ".join(capsys.readouterr().out.split())
    for line in ("draft: offloaded 1/2 layers to null:0", "each graph alone takes: main",
                 "draft layers: A", "weights by file: two.gguf", "guess.gguf", "draft decode:"):
        assert line in shown, line
    lines: list[str] = []
    made.memory._repr_pretty_(SimpleNamespace(text=lines.append), False)
    assert lines == [str(made.memory)]
