"""Turns: calls that wait for results, and turns that fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from unladen import Model
from unladen.cli._talk.conversation import NO_RESULT, Conversation
from unladen.cli._talk.screen import PlainScreen
from unladen.cli._talk.settings import Settings
from unladen.errors import InvalidArgument

CALLS: list[dict[str, Any]] = [
    {"role": "user", "content": "What is 1 + 1, and the weather?"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a1", "type": "function", "function": {
            "name": "calculator", "arguments": '{"expression": "1 + 1"}'}},
        {"id": "b2", "type": "function", "function": {
            "name": "weather\x1b[2J", "arguments": '{"city": "Paris"}'}}]}]


class Answers:
    """Answers prompts for results, one after the other; None: the user gives none."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)
        self.prompts: list[str] = []

    def message(self, draft: str = "") -> str | None:
        return None

    def result(self, prompt: str) -> str | None:
        self.prompts.append(prompt)
        return self._answers.pop(0)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model("tiny-chat", devices=["cpu"], n_threads=1) as made:
        yield made


@pytest.fixture
def talk(model: Model) -> Conversation:
    made = Conversation(model, Settings({"temperature": 0.0, "max_tokens": 8}),
                        PlainScreen(is_terminal=False), None, None)
    made.begin_with(CALLS)
    return made


def test_each_call_gets_its_result(talk: Conversation) -> None:
    talk.reader = answers = Answers("2", "sunny")
    assert talk._results() == [
        {"role": "tool", "content": "2", "name": "calculator", "tool_call_id": "a1"},
        {"role": "tool", "content": "sunny", "name": "weather\x1b[2J", "tool_call_id": "b2"}]
    assert answers.prompts == ["result of calculator: ", "result of weather\\x1b[2J: "]


def test_no_result_ends_the_turn(talk: Conversation) -> None:
    talk.reader = Answers("2", None)
    assert talk._results() is None
    assert talk.session.messages[-1]["tool_calls"]
    assert talk.say("Hello!")
    assert [m["role"] for m in talk.session.messages] == [
        "user", "assistant", "tool", "tool", "user", "assistant"]
    assert [m["content"] for m in talk.session.messages[2:4]] == [NO_RESULT] * 2


def test_a_failed_turn_leaves_the_messages(talk: Conversation,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    before = talk.session.messages
    talk.settings.values["template"] = "{{ raise_exception('not today') }}"
    assert not talk.say("Hello!")
    assert "not today" in capsys.readouterr().err
    assert talk.session.messages == before and talk.n_failed == 1
    del talk.settings.values["template"]
    assert talk.say("Hello!")


def test_a_fault_doesnt_cost_the_conversation(talk: Conversation, monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*rest: object, **more: object) -> None:
        raise ZeroDivisionError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(talk.session, "stream_say", fail)
        assert not talk.say("Hello!")
    assert "unexpected" in capsys.readouterr().err
    assert talk.say("Hello!")


def test_an_answer_of_no_tokens_is_an_answer(talk: Conversation) -> None:
    talk.settings.values["max_tokens"] = 0
    assert talk.say("Hello!")


def test_a_model_without_a_template(talk: Conversation) -> None:
    talk.settings.values["template"] = "chatml"
    talk.check()
    with pytest.raises(InvalidArgument):
        Settings({"temperature": -1.0})
