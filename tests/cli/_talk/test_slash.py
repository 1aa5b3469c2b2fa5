"""Commands of a conversation, through a pipe: they are the same on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from unladen.cli._talk.slash import COMMANDS, completions

CHAT = ("chat", "tiny-chat", "--temp", "0", "--device", "cpu", "-t", "1")
HELLO = "Hello! How can I help you?"


def test_lines_are_turns(unladen: Run) -> None:
    ran = unladen(*CHAT, stdin="Hello!\n\nWhat color is the sky?\n")
    assert (ran.code, ran.out, ran.err) == (0, f"{HELLO}\nThe sky is blue.\n", "")


def test_bye_ends_it(unladen: Run) -> None:
    for word in ("/bye", "/exit", "/QUIT "):
        ran = unladen(*CHAT, stdin=f"{word}\nHello!\n")
        assert (ran.code, ran.out) == (0, "")


def test_help_names_every_command(unladen: Run) -> None:
    ran = unladen(*CHAT, stdin="/help\n/?\n")
    assert ran.code == 0
    for name in COMMANDS:
        assert ran.err.count(f"/{name} ") >= 2


@pytest.mark.parametrize(("line", "error", "hint"), [
    ("/hlep", "there is no command /hlep", "did you mean /help?"),
    ("/", "there is no command /", "//"), ("/usr/bin", "there is no command /usr/bin", "//usr/bin"),
    ("/save", "/save needs a FILE", "/save talk.json"), ("/regen 3", "/regen takes nothing", ""),
    ("/regen", "there is nothing to answer", "say something"),
    ("/set temperature warm", "temperature must be a finite number", "default takes it back"),
    ("/set temprature 1", "there is no setting temprature", "did you mean temperature?"),
    ("/set template {{", "chat template, line 1", "malformed"),
    ("/load none.json", "none.json: No such file", ""), ("/save no/x.json", "No such file", "")])
def test_errors_dont_end_it(unladen: Run, line: str, error: str, hint: str, tmp_path: Path,
                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = unladen(*CHAT, stdin=f"{line}\nHello!\n")
    assert (ran.code, ran.out) == (1, f"{HELLO}\n"), ran.err
    assert ran.err.startswith(f"error: {error}") or error in ran.err.splitlines()[0]
    assert hint in ran.err


def test_a_slash_can_be_said(unladen: Run) -> None:
    ran = unladen(*CHAT, stdin="//bye\n")
    assert ran.code == 0 and ran.out


def test_save_load_regenerate_and_clear(unladen: Run, tmp_path: Path) -> None:
    path = tmp_path / "a talk.json"
    ran = unladen(*CHAT, "--system", "You are helpful.",
                  stdin=f"Hello!\n/save {path}\n/clear\nWhat color is the sky?\n/load {path}\n"
                        "/regen\n/system\n")
    assert ran.code == 0
    assert ran.out == f"{HELLO}\nThe sky is blue.\n{HELLO}\n"
    assert "Loaded 3 messages" in ran.err and "You are helpful." in ran.err
    messages = json.loads(path.read_text())["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    again = unladen(*CHAT, "--load", path, stdin=f"/system none\n/save {path}\n")
    assert again.code == 0
    assert json.loads(path.read_text())["messages"][0]["role"] == "user"


def test_system_keeps_the_conversation(unladen: Run, tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    ran = unladen(*CHAT, stdin=f"/system\nHello!\n/system Be brief,\\\nplease.\n/save {path}\n")
    assert ran.code == 0 and "There is no system message." in ran.err
    messages = json.loads(path.read_text())["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    assert messages[0]["content"] == "Be brief,\nplease."


def test_set_shows_and_sets(unladen: Run) -> None:
    ran = unladen(*CHAT, stdin="/set\n/set max_tokens 2\nHello!\n"
                               "/set parameter num_predict default\n/set max_tokens\nHello!\n")
    assert ran.code == 0
    first, second = ran.out.splitlines()
    assert len(first) < len(second)
    assert "temperature = 0.0" in ran.err and "max_tokens: " in ran.err


def test_tools_are_answered_by_the_next_lines(unladen: Run, tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([{"type": "function", "function": {
        "name": "calculator", "description": "Work out a sum.", "parameters": {
            "type": "object", "properties": {"expression": {"type": "string"}},
            "required": ["expression"]}}}]))
    ran = unladen(*CHAT, "--tools", path, stdin="What is 12 * 7?\n84\nHello!\n")
    assert ran.code == 0
    assert ran.out == (f'calls calculator {{"expression": "12 * 7"}}\n12 * 7 is 84.\n{HELLO}\n')
    left = unladen(*CHAT, "--tools", path, stdin="What is 12 * 7?\n")
    assert left.code == 0 and left.out.count("\n") == 1


def test_a_model_without_a_template(unladen: Run, model: str) -> None:
    ran = unladen("chat", model, stdin="Hello!\n")
    assert (ran.code, ran.out) == (1, "")
    assert "chat template" in ran.err and "--template" in ran.err and "chatml" in ran.err
    named = unladen("chat", model, "--template", "chatml", "-n", "3", "--temp", "0",
                    stdin="abc\n")
    assert named.code == 0 and named.out


def test_an_overflow_is_one_turns_error(unladen: Run) -> None:
    ran = unladen(*CHAT, "-c", "64", "-n", "8", stdin=f"{'fox ' * 60}\nHello!\n")
    assert ran.code == 1
    assert ran.err.startswith("error: ") and ran.out == f"{HELLO[:len(ran.out) - 1]}\n"


@pytest.mark.parametrize("options", [["--reasoning", "maybe"], ["--tools", "none.json"],
                                     ["--load", "none.json"], ["--temp", "-1"]])
def test_wrong_options(unladen: Run, options: list[str]) -> None:
    ran = unladen(*CHAT, *options, stdin="Hello!\n")
    assert ran.code in (1, 2) and ran.out == "" and ran.err.startswith("error: ")


def test_completions(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text("")
    (tmp_path / "tales").mkdir()
    (tmp_path / ".hidden").write_text("")
    assert completions("/s") == ["/system", "/set", "/save"]
    assert completions("/set temp") == ["temperature", "template", "template_variables"]
    assert completions(f"/load {tmp_path}/ta") == [f"{tmp_path}/tales/", f"{tmp_path}/talk.json"]
    assert completions(f"/load {tmp_path}/nothing/x") == []
    for text in ("hello", "/set temperature 0.", "a\n/s", "/bye x"):
        assert completions(text) == []
