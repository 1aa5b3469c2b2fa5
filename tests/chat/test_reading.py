"""Messages as callers have them become messages as templates read them."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any

import pytest

from unladen.chat import Message, ToolCall
from unladen.chat.reading import read_messages, require_text
from unladen.errors import InvalidArgument


def read(**message: Any) -> dict[str, Any]:
    given = {"role": "assistant", **message}
    before = copy.deepcopy(given)
    (made,) = read_messages([given])
    assert given == before, "the caller's message was changed"
    return made


def call(arguments: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(("given", "expected"), [
    ('{"a": [1, 2.0, null]}', {"a": [1, 2.0, None]}), ({"a": 1}, {"a": 1}), ("", {}), (" ", {}),
    ('{"a": 1', '{"a": 1'), ("[1]", "[1]"), ("null", "null"), ("[" * 9999, "[" * 9999)])
def test_arguments_become_objects(given: Any, expected: Any) -> None:
    assert read(tool_calls=[call(given)])["tool_calls"] == [call(expected)]


def test_calls_without_a_function_around_them() -> None:
    made = read(tool_calls=[{"name": "f", "arguments": '{"a": 1}'}])
    assert made["tool_calls"] == [{"name": "f", "arguments": {"a": 1}}]


def test_nothing_is_left_out() -> None:
    assert read(content=None, tool_calls=None, name="x") == {"role": "assistant", "name": "x"}
    assert read(content="") == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_is_found_under_both_names(key: str) -> None:
    made = read(content="4", **{key: "2 + 2"})
    assert made["reasoning_content"] == made["thinking"] == "2 + 2"


def test_what_a_model_wrote() -> None:
    said = Message(content="Hm.", reasoning="R", tool_calls=(
        ToolCall("f", '{"a": 1}', "c1"), ToolCall("g", '{"b"', is_complete=False)))
    assert read_messages([said]) == [{
        "role": "assistant", "content": "Hm.", "reasoning_content": "R", "thinking": "R",
        "tool_calls": [call({"a": 1}),
                       {"type": "function", "function": {"name": "g", "arguments": '{"b"'}}]}]


def test_other_mappings_and_objects_of_clients() -> None:
    class Said:
        def model_dump(self) -> dict[str, Any]:
            return {"role": "assistant", "content": "Hi", "refusal": None}

    assert read_messages((MappingProxyType({"role": "user", "content": "a"}), Said())) == [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "Hi"}]


def test_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x"}}
    made = read(content=["a", {"type": "input_text", "text": "b"}, picture])
    assert made["content"] == [*({"type": "text", "text": text} for text in "ab"), picture]
    require_text(read_messages([{"role": "user", "content": [{"type": "text", "text": "a"}]}]))
    with pytest.raises(InvalidArgument, match=r"messages\[0\]\.content\[2\].*'image_url'"):
        require_text([made])


@pytest.mark.parametrize(("messages", "told"), [
    ("Hello", "must be a list"), ({"role": "user"}, "must be a list"), (7, "must be a list"),
    (["Hello"], r"messages\[0\] must be a dict"),
    ([{"content": "a"}], r"messages\[0\] has no role"),
    ([{"role": 1}], "has no role"), ([{1: 2}], "must be a dict"),
    ([{"role": "user", "content": 5}], r"messages\[0\]\.content must be"),
    ([{"role": "user", "content": b"a"}], "must be"),
    ([{"role": "user", "content": [5]}], r"content\[0\] must be"),
    ([{"role": "user", "content": [{"text": "a"}]}], "has no type"),
    ([{"role": "user", "content": [{"type": "text"}]}], "has no text"),
    ([{"role": "user"}, {"role": "assistant", "tool_calls": {}}], r"messages\[1\]\.tool_calls"),
    ([{"role": "assistant", "tool_calls": ["f"]}], r"tool_calls\[0\]")])
def test_errors_name_the_place(messages: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        read_messages(messages)
