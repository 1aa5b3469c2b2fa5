"""``unladen run`` with a model that has a chat template, and the options of chats."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli.conftest import Run, Terminal
from unladen import Model

QUICK = ("--temp", "0", "-n", "40", "--device", "cpu")
QUESTION = "Hello! Who are you?"
SUM = "What is 12 * 7?"
CALCULATOR = {"type": "function", "function": {
    "name": "calculator", "description": "Calculates.", "parameters": {
        "type": "object", "properties": {"expression": {"type": "string"}},
        "required": ["expression"]}}}


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([CALCULATOR]))
    return str(path)


def test_an_answer_is_that_of_the_library(unladen: Run) -> None:
    with Model("tiny-chat", devices=["cpu"]) as model:
        system = {"role": "system", "content": "You are Bob."}
        question = {"role": "user", "content": QUESTION}
        plain, told = (model.chat(messages, temperature=0.0, max_tokens=40).text
                       for messages in ([question], [system, question]))
        continued = model.generate(QUESTION, temperature=0.0, max_tokens=40).text
    assert unladen("run", "tiny-chat", QUESTION, *QUICK).out == plain
    assert unladen("run", "tiny-chat", *QUICK, stdin=QUESTION + "\n").out == plain
    ran = unladen("run", "tiny-chat", QUESTION, *QUICK, "--system", "You are Bob.")
    assert (ran.code, ran.out, ran.err) == (0, told, "")
    for name in ("--raw", "-no-cnv"):
        assert unladen("run", "tiny-chat", QUESTION, *QUICK, name).out == continued


def test_json(unladen: Run, tools: str) -> None:
    found = json.loads(unladen("run", "tiny-chat", QUESTION, *QUICK, "--json").out)
    assert found["text"] and found["tool_calls"] == found["notes"] == []
    assert found["stop_reason"] == "eos" and found["usage"]["n_completion"] > 0
    found = json.loads(unladen("run", "tiny-chat", SUM, *QUICK, "--json", "--tools", tools).out)
    (call,) = found["tool_calls"]
    assert found["stop_reason"] == "tool_calls" and call["name"] == "calculator"
    assert list(json.loads(call["arguments"])) == ["expression"] and call["is_complete"]


def test_calls_are_lines_of_json(unladen: Run, tools: str) -> None:
    ran = unladen("run", "tiny-chat", SUM, *QUICK, "--tools", tools)
    assert (ran.code, ran.err) == (0, "") and ran.out.endswith("\n")
    call = json.loads(ran.out.splitlines()[-1])
    assert call["name"] == "calculator" and list(call["arguments"]) == ["expression"]
    ran = unladen("run", "tiny-chat", SUM, "--temp", "0", "-n", "14", "--tools", tools)
    assert (ran.code, ran.out) == (0, "") and "calculator breaks off" in ran.err


def test_reasoning_is_shown_on_a_terminal_alone(unladen: Run, terminal: Terminal) -> None:
    options = ("run", "tiny-chat", "What is 25 + 17?", *QUICK, "--reasoning", "on", "-n", "100")
    found = json.loads(unladen(*options, "--json").out)
    assert found["reasoning"]
    ran = unladen(*options)
    assert (ran.code, ran.out, ran.err) == (0, found["text"], "")
    code, shown = terminal(80, [sys.executable, "-m", "unladen", *options])
    assert code == 0 and "\x1b[2m" in shown and found["text"] in shown


def test_forms(unladen: Run) -> None:
    pytest.importorskip("llguidance")
    for raw in ([], ["--raw"]):
        ran = unladen("run", "tiny-chat", QUESTION, *QUICK, "--grammar", 'root ::= "yes"', *raw)
        assert (ran.code, ran.out) == (0, "yes"), ran.err


@pytest.mark.parametrize(("model", "options", "said"), [
    ("tiny-chat", ["--raw", "--system", "a"], "--system is for chats"),
    ("tiny-chat", ["--raw", "--template", "chatml"], "--template is for chats"),
    ("tiny-chat", ["--raw", "--tools", "TOOLS"], "--tools is for chats"),
    ("tiny", ["--system", "a"], "--system needs a chat template"),
    ("tiny", ["--tools", "TOOLS"], "--tools needs a chat template"),
    ("tiny", ["--reasoning", "on"], "--reasoning needs a chat template"),
    ("tiny-chat", ["--tools", "/no/file"], "can't be read"),
    ("tiny-chat", ["--reasoning", "maybe"], "--reasoning must be")])
def test_wrong_options_are_found_before_loading(
        unladen: Run, monkeypatch: pytest.MonkeyPatch, tools: str, model: str, options: list[str],
        said: str) -> None:
    monkeypatch.setattr("unladen.api.Model", None)
    ran = unladen("run", model, "Hello!", *(tools if o == "TOOLS" else o for o in options))
    assert (ran.code, ran.out) == (1, "") and said in ran.err and "hint: " in ran.err


def test_a_format_by_name(unladen: Run) -> None:
    ran = unladen("run", "tiny", "Hello!", "--template", "vicuna", "--system", "a", "-n", "2",
                  "--json")
    assert ran.code == 0 and json.loads(ran.out)["tool_calls"] == [], ran.err


def test_a_question_that_is_too_long(unladen: Run) -> None:
    ran = unladen("run", "tiny-chat", "word " * 60, "-c", "32")
    assert (ran.code, ran.out) == (1, "") and "tokens" in ran.err
    assert "-c NUMBER" in ran.err and "on_overflow" not in ran.err
