"""The output of commands fits the terminal, at 40 columns and at 80."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cli.conftest import Run, Terminal
from unladen.cli._table import aligned, entry, fitted, legend, paragraph

UNLADEN = [sys.executable, "-m", "unladen"]
LINES = {
    "plan": ["plan", "tiny", "--pretend", "2x1GB", "-ngl", "2"], "plan cpu": ["plan", "tiny"],
    "doctor": ["doctor"], "show": ["show", "tiny", "--tensors"],
    "bench": ["bench", "tiny", "-p", "8,16", "-n", "2", "-r", "1", "-t", "1,2"],
    "perplexity": ["perplexity", "tiny", "--text", "TEXT", "--chunk", "32"],
    "quantize": ["quantize", "tiny", "t.gguf", "Q4_0", "--dry-run", "--allow-requantize"],
    "help": ["--help"]}


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("name", LINES)
def test_fits(terminal: Terminal, text_file: Path, tmp_path: Path, name: str, columns: int) -> None:
    line = [str(text_file) if word == "TEXT" else word for word in LINES[name]]
    code, came = terminal(columns, [*UNLADEN, *line])
    assert code == 0, came
    came = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", came)
    words = {word for word in came.split() if len(word) > columns - 8}
    long = [text for text in came.splitlines()
            if len(text) > columns and not any(word in text for word in words)]
    assert not long, long


def test_a_plan_is_wide_in_a_pipe_and_explains_its_words(unladen: Run, model: str) -> None:
    out = unladen("plan", model, "--pretend", "2x24GB", "-ngl", "2").out
    head = next(line for line in out.splitlines() if line.startswith("device"))
    for name in ("layers", "mapped", "weights", "KV", "arena", "ring", "staging", "left"):
        assert name in head
    facts = json.loads(unladen("plan", model, "--pretend", "2x24GB", "-ngl", "2", "--json").out)
    after = out.partition("\n\n")[2].splitlines()
    explained = {line.split("  ")[0] for line in after if line and not line.startswith(" ")}
    assert {"null:0", "null:1", "weights", "arena", "left"} <= explained
    used = any(device["ring_bytes"] for device in facts["devices"])
    assert ("ring" in explained) == used


ROWS = [("cpu:0", "4", "0.0", "12.5"), ("null:0", "12", "0.0", "1,000.0")]
HEAD = ("device", "layers", "ring", "left")


def test_a_table_that_fits() -> None:
    assert fitted(HEAD, ROWS, 40, idle=("0.0",)) == [
        "device  layers  ring     left", "cpu:0        4   0.0     12.5",
        "null:0      12   0.0  1,000.0"]
    assert aligned([("a", "b"), ("cc", "")]) == ["a   b", "cc"]


def test_idle_columns_go_first() -> None:
    assert fitted(HEAD, ROWS, 24, idle=("0.0",)) == [
        "device  layers     left", "cpu:0        4     12.5", "null:0      12  1,000.0"]


def test_then_rows_are_lists() -> None:
    assert fitted(HEAD, ROWS, 20, idle=("0.0",)) == [
        "cpu:0", "  layers     4", "  left    12.5", "null:0", "  layers       12",
        "  left    1,000.0"]


def test_paragraphs() -> None:
    assert paragraph("one two three", 40) == ["one two three"]
    assert paragraph("  one two three", 9) == ["  one two", "  three"]
    assert paragraph("one two three", 9, "  ") == ["one two", "  three"]
    assert paragraph("", 9) == [""]
    assert legend({"a": "first", "bb": "second one"}, 12) == ["a   first", "bb  second", "    one"]


def test_entries() -> None:
    assert entry("  a", "text", 80, at=6) == ["  a   text"]
    assert entry("  longer name", "text", 80, at=6) == ["  longer name", "      text"]
    assert entry("title", "", 80, at=6) == ["title"]
    assert entry("a", "one two three four", 14, at=6) == ["a", "    one two", "    three four"]
