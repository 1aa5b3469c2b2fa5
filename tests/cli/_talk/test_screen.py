"""What is shown of an answer, on terminals and in pipes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pyte
import pytest

from unladen.chat.deltas import (
    CallArguments,
    CallBegun,
    CallFinished,
    ContentDelta,
    Delta,
    ReasoningDelta,
)
from unladen.cli._talk.screen import PlainScreen, RichScreen, Screen, screen

HOSTILE = ("\x1b[2J\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x9b31m\r\x08\x7f\u202ereversed\u2066"
           "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \ud800 \x0e\x0f \x1bP+q\x1b\\")
"""Codes that clear the screen, set the title and the clipboard, go back, and turn text around."""
ANSWER: Sequence[Delta] = (
    ReasoningDelta("\nLet me"), ReasoningDelta(" think.\n\n"), ContentDelta("\n\nThe **answer**"),
    ContentDelta(" is:\n\n- 42\n"), CallBegun(0, "id", "calculator"),
    CallArguments(0, '{"expression": '), CallArguments(0, '"6 * 7"}'), CallFinished(0),
    CallBegun(1, "id2", "time"), CallArguments(1, "{}"), CallFinished(1))


class Out(io.StringIO):
    """stdout, which may be a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._is_terminal = terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(made: Screen, out: Out, deltas: Sequence[Delta]) -> str:
    for delta in deltas:
        made.show(delta)
        made.draw()
    made.end()
    return out.getvalue()


def seen(text: str) -> list[str]:
    """The rows of a terminal that got ``text``."""
    there = pyte.Screen(80, 40)
    pyte.Stream(there).feed(text.replace("\n", "\r\n"))
    rows = [row.rstrip() for row in there.display]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def out_as(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> Out:
    out = Out(terminal=terminal)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    return out


def test_parts_stand_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    out = out_as(monkeypatch, terminal=True)
    text = shown(RichScreen(), out, ANSWER)
    assert seen(text) == [
        "Let me think.", "", "The answer is:", "", " \u2022 42", "",
        'calls calculator {"expression": "6 * 7"}', "", "calls time {}"]
    assert "\x1b[2mLet me think." in text and "\x1b[1manswer" in text.replace("\x1b[0m", "")


def test_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = out_as(monkeypatch, terminal=True)
    text = shown(PlainScreen(is_terminal=True), out, ANSWER)
    assert "\x1b" not in text
    assert [row for row in text.split("\n") if row] == [
        "[thinking]", "Let me think.", "[answer]", "The **answer** is:", "- 42",
        'calls calculator {"expression": "6 * 7"}', "calls time {}"]


def test_a_pipe_gets_the_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    out = out_as(monkeypatch, terminal=False)
    text = shown(PlainScreen(is_terminal=False), out, [*ANSWER[:4]])
    assert text == "The **answer** is:\n\n- 42\n"
    out.truncate(0)
    out.seek(0)
    assert shown(PlainScreen(is_terminal=False), out, [ContentDelta(HOSTILE[:9])]) == (
        HOSTILE[:9] + "\n")


@pytest.mark.parametrize("delta", [ContentDelta(HOSTILE), ReasoningDelta(HOSTILE),
                                   ContentDelta(f"```{HOSTILE}\n{HOSTILE}\n```\n"),
                                   ContentDelta(f"# {HOSTILE}\n- {HOSTILE}\n\n| {HOSTILE} |\n|-|"),
                                   ContentDelta(f"[a](http://{HOSTILE.replace(' ', '')})")])
@pytest.mark.parametrize("is_rich", [True, False])
def test_the_model_doesnt_control_the_terminal(delta: Delta, is_rich: bool,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the text is obeyed: only colours and the keeping of the last rows are sent."""
    out = out_as(monkeypatch, terminal=True)
    made: Screen = RichScreen() if is_rich else PlainScreen(is_terminal=True)
    text = shown(made, out, [delta, CallBegun(0, "", HOSTILE), CallArguments(0, HOSTILE),
                             CallFinished(0)])
    rest = re.sub(r"\x1b\[[0-9;]*m|\x1b\[K|\x1b\[J|\x1b\[\d+A|\n\x1b|\r", "", text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
                         rest)
    assert "\x1b[2J" not in text and "\\x1b" in text


@pytest.mark.parametrize(("environment", "kind"), [
    ({"TERM": "xterm"}, RichScreen), ({"TERM": "dumb"}, PlainScreen),
    ({"TERM": "xterm", "NO_COLOR": "1"}, PlainScreen)])
def test_choice(environment: dict[str, str], kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out_as(monkeypatch, terminal=True)
    assert type(screen()) is kind
    out_as(monkeypatch, terminal=False)
    assert type(screen()) is PlainScreen
