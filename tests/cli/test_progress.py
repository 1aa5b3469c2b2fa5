"""Bars are drawn only on a terminal and erased at the end."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cli.conftest import Shell, Terminal
from unladen.cli import _progress
from unladen.cli._fetch import fetched
from unladen.cli._progress import Bar, Download, bars_end_here, loading_line
from unladen.hub import FoundModel
from unladen.types import LoadProgress

DRAWN = """
import logging, sys
from unladen.cli import _progress
_progress.SHORT_S = _progress.EVERY_S = 0
logging.basicConfig(level=logging.INFO, format="%(message)s")
with _progress.Bar("counting") as bar:
    for i in range(4):
        bar(i, 4, f"at {i}")
        if i == 2:
            logging.getLogger("unladen").warning("a line between")
print("after")
"""
CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def screen(text: str) -> list[str]:
    """The text on a terminal after all output; understands the control codes that bars use."""
    lines, row, column = [""], 0, 0
    while text:
        match = CODE.match(text)
        if match:
            number, name = match.groups()
            if name == "A":
                row = max(0, row - int(number or 1))
            elif name == "K":
                assert number == "2"
                lines[row] = ""
            else:
                assert name in "mhl", match[0]
            text = text[match.end():]
            continue
        if text[0] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif text[0] == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + text[0] + lines[row][column + 1:]
            column += 1
        text = text[1:]
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_is_left_behind(terminal: Terminal, columns: int) -> None:
    code, came = terminal(columns, [sys.executable, "-c", DRAWN])
    assert code == 0, came
    assert "counting" in came and "75%" in came and "at 3" in came
    assert screen(came) == ["a line between", "after", ""]
    assert came.rfind("\x1b[?25h") > came.rfind("\x1b[?25l"), "the cursor is shown again"


def test_no_colour(terminal: Terminal) -> None:
    _, came = terminal(80, [sys.executable, "-c", DRAWN], NO_COLOR="1")
    assert "counting" in came
    assert not [m[0] for m in CODE.finditer(came) if m[2] == "m" and re.search(r"3\d|9\d", m[1])]


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_can_take_nothing_back(terminal: Terminal, term: str) -> None:
    _, came = terminal(80, [sys.executable, "-c", DRAWN], TERM=term)
    assert came == "a line between\nafter\n"


def test_an_error_comes_after_the_bar(terminal: Terminal) -> None:
    code = DRAWN.replace("with _progress.Bar(\"counting\") as bar:", (
        "with _progress.bars_end_here():\n"
        "    bar = _progress.Bar('counting')")).replace("print(", "    raise SystemExit(")
    status, came = terminal(60, [sys.executable, "-c", code])
    assert status == 1 and "counting" in came
    assert screen(came) == ["a line between", "after", ""]


def test_nothing_in_a_pipe(shell: Shell, model: str, text_file: Path) -> None:
    for line in (["run", model, "abc", "-n", "3"], ["bench", model, "-p", "4", "-n", "1"],
                 ["perplexity", model, "--text", str(text_file), "--chunk", "64"]):
        ran = shell("", *line)
        assert (ran.code, ran.err) == (0, "") and "\x1b" not in ran.out and "\r" not in ran.out


def test_what_is_short_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "wanted", lambda: True)
    with Bar("quick") as bar:
        bar(1, 2)
        assert bar._line is None
        monkeypatch.setattr(_progress, "SHORT_S", 0.0)
        bar(2, 2)
        assert bar._line is not None
    assert bar._line is None
    bar(2, 2)
    assert bar._line is None, "it is closed"


def test_bars_end_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "wanted", lambda: True)
    monkeypatch.setattr(_progress, "SHORT_S", 0.0)
    bars: list[Bar] = []

    def fail() -> None:
        with bars_end_here():
            bars.append(Bar("slow"))
            bars[0](1, 2)
            assert bars[0]._line is not None
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        fail()
    assert bars[0]._line is None


def test_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "wanted", lambda: False)
    assert loading_line() is None
    shown: list[tuple[float, float | None, str]] = []
    monkeypatch.setattr(_progress, "wanted", lambda: True)
    monkeypatch.setattr(Bar, "__call__", lambda bar, *now: shown.append(now))
    line = loading_line()
    assert line is not None
    line(LoadProgress(10**6, 10**7, 1.0))
    line(LoadProgress(10**7, 10**7, 2.0))
    assert shown == [(10**6, 10**7, "10 MB")]


def test_downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def find(model: str, *, aliases: object, progress: type, look: object) -> FoundModel:
        asked.append((model, progress))
        return FoundModel(tmp_path / "m.gguf")

    monkeypatch.setattr("unladen.cli._fetch.find_model", find)
    file = tmp_path / "here.gguf"
    file.write_bytes(b"GGUF")
    for local in ("tiny", str(file)):
        assert fetched(local) == local
    assert asked == []
    assert fetched("org/repo:Q8_0") == str(tmp_path / "m.gguf")
    assert asked == [("org/repo:Q8_0", Download)]


def test_a_download_as_the_client_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, float | None, str]] = []
    monkeypatch.setattr(Bar, "__call__", lambda bar, *now: shown.append(now))
    with Download(desc="m.gguf", total=4 * 10**6, initial=10**6, unit="B", unit_scale=True) as bar:
        bar.update(10**6)
        bar.set_postfix_str("1 MB/s", refresh=False)
        bar.update(2 * 10**6)
    assert shown == [(2 * 10**6, 4 * 10**6, "4 MB"), (4 * 10**6, 4 * 10**6, "4 MB")]
    assert (bar.n, bar.total) == (4 * 10**6, 4 * 10**6)
