"""The file of tools, and ``--reasoning``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unladen.cli import _tools
from unladen.cli._options import reasoning_of
from unladen.cli._tools import tools_of
from unladen.errors import InvalidArgument

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}


def test_tools(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + json.dumps([WEATHER]).encode())
        assert tools_of(str(path)) == [WEATHER]
    assert tools_of(None) is None


@pytest.mark.parametrize(("data", "said"), [
    (b'[\n {"a": }]', "line 2, column 8"), (b"{}", "list"), (b"[NaN]", "NaN"), (b"\xff", "UTF-8"),
    (b"[" * 200_000, "nested too deeply"), (b"", "line 1, column 1"),
    *((json.dumps([WEATHER, wrong]).encode(), f"tool 1, counted from 0, {said}")
      for wrong, said in [
          (1, "isn't an object"), ({"type": "web_search"}, 'has a "type"'),
        ({"name": "weather"}, 'has no object "function"'),
        ({"function": {"name": 3}}, 'has no "name"'),
        ({"function": {"name": "f", "description": 3}}, 'has a "description"'),
        ({"function": {"name": "f", "parameters": []}}, 'has "parameters"')])])
def test_wrong_tools(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "tools.json"
    path.write_bytes(data)
    with pytest.raises(InvalidArgument) as caught:
        tools_of(str(path))
    assert said in caught.value.message and str(path) in caught.value.message
    assert caught.value.hint


def test_files_that_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (str(tmp_path / "none.json"), str(tmp_path), "a\0b"):
        with pytest.raises(InvalidArgument, match="can't be read"):
            tools_of(path)
    monkeypatch.setattr(_tools, "MAX_BYTES", 8)
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([WEATHER]))
    with pytest.raises(InvalidArgument, match="too large"):
        tools_of(str(path))


@pytest.mark.parametrize(("text", "expected"), [
    (None, {}), ("on", {"reasoning": True}), (" Off ", {"reasoning": False}),
    ("high", {"reasoning": "high"}), ("200", {"reasoning": True, "reasoning_tokens": 200}),
    ("1.5s", {"reasoning": True, "reasoning_seconds": 1.5})])
def test_reasoning(text: str | None, expected: dict[str, Any]) -> None:
    assert reasoning_of(text) == expected


@pytest.mark.parametrize("text", ["", "maybe", "-1", "1.5", "1e3", "s", "²", "10 s", "1" * 40])
def test_wrong_reasoning(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--reasoning must be"):
        reasoning_of(text)
