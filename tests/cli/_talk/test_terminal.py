"""Conversations on a terminal, as a person sees them."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.greeter import GREETING, write_greeter
from seen_terminal import SeenTerminal

HELLO = "Hello! How can I help you?"
TOOLS = [{"type": "function", "function": {
    "name": "calculator", "description": "Work out a sum.", "parameters": {
        "type": "object", "properties": {"expression": {"type": "string"}},
        "required": ["expression"]}}}]
ENDLESS = ("-c", "65536")
"""Options with which an answer that doesn't end lasts long enough to be stopped."""

Begin = Callable[..., SeenTerminal]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """``unladen ARGUMENTS`` in a terminal; the most likely tokens are chosen."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("UNLADEN_") and k not in ("NO_COLOR", "COLUMNS", "LINES")}
    environment = {**kept, "UNLADEN_DEVICES": "cpu", "TERM": "xterm-256color",
                   "UNLADEN_HISTORY": str(tmp_path / "history")}

    def begin(*arguments: object, columns: int = 80, lines: int = 24, **changed: str
              ) -> SeenTerminal:
        command = [sys.executable, "-m", "unladen", *map(str, arguments), "--temp", "0", "-t", "1"]
        return SeenTerminal(command, {**environment, **changed}, columns, lines)

    return begin


def test_ten_turns(begin: Begin, tmp_path: Path) -> None:
    """One of them is stopped, one calls a tool, one has several lines."""
    tools, talk = tmp_path / "tools.json", tmp_path / "talk.json"
    tools.write_text(json.dumps(TOOLS))
    with begin("chat", "tiny-chat", "--tools", tools, *ENDLESS) as there:
        assert HELLO in there.ask("Hello!")  # 1
        assert "The sky is blue." in there.ask("What color is the sky?")  # 2
        there.type("What is 12 * 7?\r")  # 3
        there.wait_for("result of calculator:")
        there.type("84\r")
        there.wait_for("12 * 7 is 84.")
        there.wait_for_prompt()
        assert 'calls calculator {"expression": "12 * 7"}' in there.text()
        there.ask("/set ignore_eos on")
        there.type("Tell me a story about a fox.\r")  # 4
        there.wait_for("Once ")
        there.type("\x03")
        there.wait_for("stopped, ")
        there.ask("/set ignore_eos off")
        there.ask(f"/save {talk}")
        assert there.ask("Thank you!").count("\n") >= 3  # 5
        there.type("Hello!\x1b\rWhat color is the sky?\r")  # 6
        there.wait_for("... What color")
        there.wait_for_prompt()
        there.type('"""\rHello!\r"""\r')  # 7
        there.wait_for('... """')
        there.wait_for_prompt()
        there.type("Hello\\\rWho are you?\r")  # 8
        there.wait_for("... Who are you?")
        there.wait_for_prompt()
        assert "The system message is set." in there.ask("/system You are helpful.")
        there.ask("Bye!")  # 9
        assert "Loaded 10 messages" in there.ask(f"/load {talk}")
        assert " tokens" in there.ask("/regen")
        assert HELLO in there.ask("Hello!")  # 10
        there.ask(f"/save {talk}")
        there.type("/bye\r")
        assert there.end() == 0
        assert there.is_cooked()
        text = there.text()
    assert "error" not in text and "Traceback" not in text
    messages = json.loads(talk.read_text())["messages"]
    turn = ["user", "assistant"]
    assert [m["role"] for m in messages] == [*turn, *turn, *turn, "tool", "assistant", *turn, *turn]


def test_ctrl_c_stops_the_answer_and_keeps_it(begin: Begin, tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    talker = write_greeter(tmp_path / "talker.gguf", again_and_again=True)
    with begin("chat", talker) as there:
        there.wait_for_prompt()
        for question in ("First?", "Second?"):
            there.type(f"{question}\r")
            for wanted, keys in (GREETING, "\x03\x03\x03"), ("stopped, ", ""):
                there.wait(lambda wanted=wanted, question=question: (
                    wanted in there.text().partition(question)[2]))
                there.type(keys)  # Ctrl-C more than once doesn't end the program
            there.wait_for_prompt()
        there.ask(f"/save {talk}")
        there.type("\x04")
        assert there.end() == 0
    messages = json.loads(talk.read_text())["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2
    assert all(m["content"].startswith(GREETING) for m in messages[1::2])


def test_ctrl_c_at_the_prompt(begin: Begin) -> None:
    with begin("chat", "tiny-chat") as there:
        there.wait_for_prompt()
        there.type("not this")
        there.wait_for("not this")
        there.type("\x03")
        there.wait_for("(Ctrl-C again")
        there.type("\x1b[A")  # the arrow key brings the line back
        there.wait(lambda: "not this" in there.screen.display[there.screen.cursor.y])
        there.type("\x15Hello!\r")
        there.wait_for(HELLO)
        there.wait_for_prompt()
        there.type("\x03")
        there.wait_for("(Ctrl-C again")
        there.type("\x03")
        assert there.end() == 0 and there.is_cooked()


def test_a_question_that_fails_is_offered_again(begin: Begin, tmp_path: Path) -> None:
    with begin("chat", "tiny-chat", "-c", "64", "-n", "8") as there:
        there.wait_for_prompt()
        there.type("fox " * 50 + "end\r")
        there.wait_for("error: ")
        there.wait(lambda: there.screen.display[there.screen.cursor.y].rstrip().endswith("end"))
        there.type("\x03")
        there.wait_for_prompt()
        there.type("Hello!\r")
        there.wait_for("Hello! How")
        there.wait_for_prompt()
        there.type("\x04")
        assert there.end() == 0
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600


def test_a_tool_without_a_result(begin: Begin, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    with begin("chat", "tiny-chat", "--tools", tools) as there:
        there.wait_for_prompt()
        there.type("What is 12 * 7?\r")
        there.wait_for("result of calculator:")
        there.type("\x03")
        there.wait_for("No result")
        assert HELLO in there.ask("Hello!")
        there.type("/bye\r")
        assert there.end() == 0


@pytest.mark.parametrize("during", ["prompt", "answer"])
def test_sigterm_ends_it_cleanly(begin: Begin, during: str) -> None:
    with begin("chat", "tiny-chat", "--ignore-eos", *ENDLESS) as there:
        there.wait_for_prompt()
        if during == "answer":
            there.type("Tell me a story about a fox.\r")
            there.wait_for("Once ")
        there.process.send_signal(signal.SIGTERM)
        assert there.end() == 143
        assert there.is_cooked()
        assert "Traceback" not in there.text()


def test_keys_during_an_answer_come_to_the_next_line(begin: Begin) -> None:
    with begin("chat", "tiny-chat", "--ignore-eos", *ENDLESS) as there:
        there.wait_for_prompt()
        there.type("Tell me a story about a fox.\r")
        there.wait_for("Once ")
        there.type("zebra")
        there.type("\x03")
        there.wait_for("stopped, ")
        there.wait_for(">>> zebra")
        assert there.text().count("zebra") == 1


def test_resize_in_an_answer(begin: Begin) -> None:
    with begin("chat", "tiny-chat", "--ignore-eos", *ENDLESS, columns=70) as there:
        there.ask("/set")
        there.type("Tell me a story about a fox.\r")
        there.wait_for("Once ")
        there.resize(30, 10)
        there.wait(lambda: len(there.raw) > 4000)
        there.resize(100, 30)
        there.type("\x03")
        there.wait_for("stopped, ")
        there.wait_for_prompt()
        there.ask("/set ignore_eos off")
        assert " tokens" in there.ask("Hello!")
        there.type("/bye\r")
        assert there.end() == 0


def test_a_narrow_terminal(begin: Begin) -> None:
    with begin("chat", "tiny-chat", columns=22, lines=8) as there:
        there.ask("/help")
        shown = there.ask("Hello!")
        assert shown.split("\n")[1:3] == ["Hello! How can I help", "you?"]
        there.ask("/set nonsense 1")
        there.type("/bye\r")
        assert there.end() == 0


@pytest.mark.parametrize("plain", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_without_colours(begin: Begin, plain: dict[str, str]) -> None:
    with begin("chat", "tiny-chat", "--reasoning", "on", **plain) as there:
        there.wait_for(">>> ")
        there.type("What is 25 + 17?\r")
        there.wait_for("[thinking]")
        there.wait_for("[answer]")
        there.wait_for("prompt ")
        there.type("/bye\r")
        assert there.end() == 0
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m|\x1b\[2m", there.raw)


def test_completion_and_history_of_an_earlier_conversation(begin: Begin) -> None:
    with begin("chat", "tiny-chat") as there:
        there.wait_for_prompt()
        there.type("/he\t\r")
        there.wait_for("Show this list.")
        there.wait_for_prompt()
        there.type("\x1b[200~Hello!\rWho are you?\x1b[201~")  # pasted: not sent yet
        there.wait_for("... Who are you?")
        there.type("\r")
        there.wait_for(" tokens")
        there.wait_for_prompt()
        there.type("\x04")
        assert there.end() == 0
    with begin("chat", "tiny-chat") as there:
        there.wait_for_prompt()
        there.type("\x1b[A")
        there.wait_for("... Who are you?")


def test_run_without_a_prompt_talks(begin: Begin, model: str) -> None:
    with begin("run", "tiny-chat", "-n", "40") as there:
        assert HELLO in there.ask("Hello!")
        there.type("/bye\r")
        assert there.end() == 0
    with begin("run", model) as there:
        assert there.end() == 1
        assert "chat template" in there.text() and "unladen run MODEL PROMPT" in there.text()
