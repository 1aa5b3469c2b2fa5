"""The history of measurements refuses malformed files and formats numbers correctly."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "src/unladen/data/tiny.gguf"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The tool, over an empty folder of results."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    module = importlib.import_module("gen_history")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def result(**changes: Any) -> dict[str, Any]:
    return {"schema": 1, "title": "A title", "date": "2026-01-02", "machine": "A machine",
            "program": "compare.py", "columns": {"a": "first", "b": "second", "c": "third"},
            "rows": [{"a": 1.5, "raw": [1, 2]}, {"a": 2.25, "b": "word"}], "notes": ["A note."],
            **changes}


def test_numbers_keep_the_zeros_that_json_drops(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(result()), encoding="utf-8")
    lines = tool.history().splitlines()
    assert "| first | second |" in lines, "a column without numbers isn't shown, nor raw data"
    assert "| 1.50 |  |" in lines
    assert "| 2.25 | word |" in lines
    assert "* A note." in lines


@pytest.mark.parametrize("changes", [
    {"schema": 2}, {"date": "yesterday"}, {"rows": [{"raw": 1}]}, {"title": None},
    {"rounds": "7"}, {"surprise": 1},
], ids=lambda changes: next(iter(changes)))
def test_refused(tool: ModuleType, tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "x.json").write_text(json.dumps(result(**changes)), encoding="utf-8")
    with pytest.raises((AssertionError, KeyError)):
        tool.history()


def test_what_compare_writes_is_taken(tool: ModuleType, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    compare = importlib.import_module("compare")
    try:
        task = compare.Task(TINY, compare.programs.Test(0, 8, 0), 2, logits=True)
        limits = [compare.roofline.Roofline(2, 2e9, 1e9, 3e9)] * 2
        measured = compare.Measured(task, [10.0, 12.0], {"fa": [5.0, 6.0], "default": [4.0]},
                                    limits)
        data = result(columns=compare.report.COLUMNS, rows=[measured.row()], rounds=2,
                      peer="peer", limits=[dataclasses.asdict(compare._middle(2, [measured]))])
        first, second = (compare.report.save(tmp_path, data) for _ in range(2))
        assert first != second, "an earlier result is kept"
        text = tool.history()
        assert text.count("| tiny | tg8 | 2 | 2.0 | fa |") == 2
        assert "limits with 2 threads: 2.0 GB/s read, 1.0 in the median pass" in text
        assert "<svg" in compare.report.picture(data)
    finally:
        for name in ("compare", "programs", "report", "roofline", "work"):
            sys.modules.pop(name, None)
