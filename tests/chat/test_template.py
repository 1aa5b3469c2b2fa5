"""Prompts of published templates, byte for byte."""

from __future__ import annotations

import copy
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from unladen.chat import ChatTemplate, render
from unladen.errors import TemplateError

pytest.importorskip("jinja2")

CLOCK = datetime.datetime(2026, 1, 15, 12, 34, 56)


def published() -> list[Any]:
    """The name of every template in the shared data."""
    folder = Path(__file__).resolve().parents[3] / "shared/chat/templates"
    return sorted(path.stem for path in folder.glob("*.jinja"))


@pytest.fixture(scope="module")
def rendered(shared: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((shared / "chat/rendered.json").read_text(encoding="utf-8"))
    return data


@pytest.fixture(scope="module")
def conversations(shared: Path) -> list[dict[str, Any]]:
    text = (shared / "chat/conversations.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["conversations"]
    return found


def test_all_templates_are_there(rendered: dict[str, Any]) -> None:
    assert published() == sorted(rendered["templates"])
    assert sum(len(t["expected"]) for t in rendered["templates"].values()) > 700


@pytest.mark.parametrize("name", published())
def test_prompts(name: str, shared: Path, rendered: dict[str, Any],
                 conversations: list[dict[str, Any]]) -> None:
    source = (shared / f"chat/templates/{name}.jinja").read_text(encoding="utf-8")
    entry = rendered["templates"][name]
    wrong = []
    for conversation in conversations:
        expected = entry["expected"][conversation["name"]]
        given = copy.deepcopy(conversation)
        try:
            prompt = render(source, given["messages"], given["tools"], entry["bos_token"],
                            entry["eos_token"], given["add_generation_prompt"],
                            strftime_now=CLOCK.strftime, **given["kwargs"],
                            **entry.get("extra", {}))
        except TemplateError as error:
            right = isinstance(expected, dict) and error.refused == expected["strict"]
            told: object = error
        else:
            may = expected.get("or") if isinstance(expected, dict) else expected
            texts = [rendered["texts"][i] for i in ([may] if isinstance(may, int) else may or [])]
            right = prompt in texts if texts else not expected["strict"]
            told = prompt
        if not right:
            wrong.append(f"{conversation['name']}: {told!s:.500}\n  expected {expected}")
        assert given == conversation, "the caller's messages were changed"
    assert not wrong, "\n".join(wrong)


def test_kimi_counts_its_calls(shared: Path, conversations: list[dict[str, Any]]) -> None:
    """Its template appends to a list of its own: transformers refuses that, and tools with it."""
    source = (shared / "chat/templates/Kimi-K2-Instruct.jinja").read_text(encoding="utf-8")
    said = next(c for c in conversations if c["name"] == "parallel-calls")
    prompt = render(source, said["messages"], said["tools"])
    for call in ("functions.get_weather:0", "functions.search_files:1"):
        assert prompt.count(f"<|tool_call_begin|>{call}<|tool_call_argument_begin|>") == 1
        assert prompt.count(f"## Return of {call}\n") == 1


def test_sensible_forms_are_tried(shared: Path, rendered: dict[str, Any],
                                  conversations: list[dict[str, Any]]) -> None:
    """A template that fails where another form of the conversation renders gets that form."""
    failed, n = [], 0
    for name, entry in rendered["templates"].items():
        template = ChatTemplate((shared / f"chat/templates/{name}.jinja").read_text("utf-8"))
        for conversation in conversations:
            expected = entry["expected"][conversation["name"]]
            if isinstance(expected, dict) and "or" in expected:
                n += 1
                try:
                    template.render(conversation["messages"], conversation["tools"],
                                    strftime_now=CLOCK.strftime)
                except TemplateError as error:
                    failed.append(f"{name}, {conversation['name']}: {error}")
    assert n > 20
    assert not failed
