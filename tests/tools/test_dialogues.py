"""The dialogues that the chat model learns from."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def composed(dialogues: ModuleType, rng: np.random.Generator) -> list[Any]:
    return list(dialogues.compose(int(rng.integers(2**32)), 1500))


def contents(composed: list[Any]) -> Iterator[str]:
    """Every text that a dialogue's turns say."""
    for dialogue in composed:
        for message in dialogue.messages:
            if message["role"] in ("system", "user", "assistant"):
                yield message["content"]
                yield message.get("reasoning_content", "")


def test_a_seed_gives_the_same_dialogues(dialogues: ModuleType, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    first = list(dialogues.compose(seed, 20))
    assert first == list(dialogues.compose(seed, 20))
    assert first != list(dialogues.compose(seed + 1, 20))


def test_every_talk_and_tool_occurs(dialogues: ModuleType, composed: list[Any]) -> None:
    found = {kind for dialogue in composed for kind in dialogue.kinds}
    talks = importlib.import_module("talks")
    files = ("small", "self", "facts", "unknown")
    named = {talk.name for name in files for talk in talks.talks(name)} - {"helpful"}
    rare = named - found
    assert len(rare) <= len(named) / 10, rare
    assert found >= {"sum", "words", "units", "weather", "time", "phone", "result", "tale", "story"}


def test_turns_follow_one_another(composed: list[Any]) -> None:
    before = {"system": {""}, "user": {"", "system", "assistant"},
              "assistant": {"user", "tool"}, "tool": {"assistant", "tool"}}
    for dialogue in composed:
        last = ""
        for message in dialogue.messages:
            assert last in before[message["role"]], dialogue
            last = message["role"]
        assert last == "assistant"


@pytest.mark.parametrize("wrong", [
    r"[{}|@~\[\]\\]",
    r"\b[Aa] (?!uni)[aeiouAEIOU]\w|\b[Aa] honest",
    r"\b[Aa]n (?!honest|hour)[^aeiouAEIOU]",
    r"  | \n| [,!]",
], ids=["unfilled", "a", "an", "spacing"])
def test_no_turn_has(wrong: str, composed: list[Any]) -> None:
    for text in contents(composed):
        assert re.search(wrong, text) is None, text


def test_calls_fit_the_tools_and_results_are_right(composed: list[Any]) -> None:
    calculators = importlib.import_module("tasks").TOOLS["calculator"].names
    n_sums = 0
    for dialogue in composed:
        tools = {tool["function"]["name"]: tool["function"]["parameters"]
                 for tool in dialogue.tools}
        for i, message in enumerate(dialogue.messages):
            for call in message.get("tool_calls", ()):
                function = call["function"]
                assert set(function["arguments"]) == set(tools[function["name"]]["required"])
                if function["name"] not in calculators:
                    continue
                result = dialogue.messages[i + 1]["content"]
                if not result.startswith("error"):
                    n_sums += 1
                    told = json.loads(result)
                    value = next(iter(told.values())) if isinstance(told, dict) else told
                    [expression] = function["arguments"].values()
                    assert re.fullmatch(r"[\d +*/.-]+", expression)
                    assert eval(expression) == pytest.approx(value, abs=0.005)
    assert n_sums > 100


def test_answers_of_stories_are_in_them(dialogues: ModuleType, rng: np.random.Generator) -> None:
    """The names that an answer gives were told before."""
    for dialogue in dialogues.compose(int(rng.integers(2**32)), 300, "tale"):
        told = ""
        for message, kind in zip(dialogue.messages, dialogue.kinds, strict=True):
            if kind == "tale":
                names = re.findall(r"(?<=[a-z,] )[A-Z]\w+", message["content"])
                assert all(name in told for name in names), dialogue.messages
            told += message["content"]


def test_tales_leave_the_cast_as_it_is(dialogues: ModuleType) -> None:
    for tale in importlib.import_module("talks").talks("tales"):
        chosen = {name for names, _ in tale.lets for name in names}
        assert not chosen & {"h", "f", "v"}, f"{tale.name} replaces a person or the home"
