"""The benchmark of a GPU runs from end to end, and says nothing about one where there is none."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from unladen.backends import backend_of

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "src/unladen/data/tiny.gguf"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The benchmark, whose folder of results is empty."""
    if not backend_of("opencl").devices():
        pytest.skip(backend_of("opencl").why_none())
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("gpu")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(module, "N_HOST", 2)
    return module


def test_a_device_from_end_to_end(program: ModuleType, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["opencl:0", f"{TINY}:tg2,pp8,tg2x3", "--product", "64", "--repeat", "1"]
    path = program.main([*arguments, "--out", str(tmp_path / "named")])
    assert path is not None and path.parent == tmp_path / "named"
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["test"]: row for row in data["rows"]}
    assert rows["copy, read and written"]["value"] > 0
    for test in ("tg2", "pp8", "tg2 x3"):
        assert rows[test]["rate"] > 0 and rows[test]["limit"] > 0
    assert rows["host, of the calling thread"]["unit"] == "ms a step"
    assert rows["dispatches"]["value"] > 5
    monkeypatch.syspath_prepend(ROOT / "tools")
    history = importlib.import_module("gen_history")
    monkeypatch.setattr(history, "RESULTS", path.parent)
    assert "| tg2 x3 |" in history.history()


def test_figures_of_a_driver_for_the_processor_are_not_kept(program: ModuleType, tmp_path: Path
                                                            ) -> None:
    (device, *_) = backend_of("opencl").devices()
    written = program.main(["opencl:0", "--product", "64"])
    assert (written is None) == ("software" in device.description)
    assert (tmp_path / "results").exists() == (written is not None)
