"""Calls for a constraint: texts around arguments that are parsed back as these calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chat.answers import TOOLS, Rendered, calls_of, form_in
from chat.strange_templates import TEMPLATES
from unladen.chat.called import CalledForm, ToolText
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.forms import Parameters
from unladen.chat.learning import answer_form
from unladen.chat.parsing import parse_answer
from unladen.errors import InvalidArgument

WITHOUT = {"google-gemma-2-2b-it", "google-gemma-3-4b-it", "llama-cpp-rwkv-world",
           "microsoft-Phi-3.5-mini-instruct", "in_attributes", "python", "arrow",
           "quoted_values", "list_of_python", "type_first"}
"""Templates whose calls a constraint can't write, or that have none."""
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "do_it": {"text": "a b", "count": 3, "list": ["x"]}, "now": {}}


def _arguments(call: ToolText) -> str:
    values, form = ARGUMENTS[call.tool], call.parameters
    if call.are_keywords:
        return ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
    if form is None:
        return json.dumps(values)
    return form.separator.join(_parameter(form, *item) for item in values.items())


def _parameter(form: Parameters, key: str, value: Any) -> str:
    kinds = {kind: text for text, kind in form.key_closes}
    close = kinds.get("raw") or kinds["string" if isinstance(value, str) else "json"]
    text = value if isinstance(value, str) else json.dumps(value)
    return form.key_open + key + close + text + key.join(form.value_close)


def _text(form: CalledForm, calls: list[ToolText]) -> str:
    return form.opening + form.separator.join(
        call.before + _arguments(call) + call.after for call in calls) + form.closing


def _check(form: AnswerForm) -> None:
    called = form.called(TOOLS, "required")
    assert called is not None
    assert called.is_required
    calls = [*called.calls] if called.is_parallel else [called.calls[0]]
    for call in called.calls:
        assert called.opening or (call.before.startswith(call.trigger) and call.trigger)
    # A call of Functionary 3.2 begins in the prompt.
    begins = form.dialect.name == "functionary_3_2"
    prompt = form.prompt_end if begins else form.header + "\n"
    message = parse_answer(_text(called, calls), form, TOOLS, prompt=prompt)
    assert calls_of(message) == [(call.tool, ARGUMENTS[call.tool]) for call in calls]
    assert not message.content.strip()


def test_known_templates(shared: Path) -> None:
    for path in sorted((shared / "chat/templates").glob("*.jinja")):
        form = form_in(shared, path.stem)
        if path.stem in WITHOUT:
            assert form.called(TOOLS, "required") is None, path.stem
        else:
            _check(form)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_strange_templates(name: str) -> None:
    form = answer_form(Rendered(TEMPLATES[name]))
    if name in WITHOUT:
        assert form.called(TOOLS) is None
    else:
        _check(form)


@pytest.mark.parametrize(("choice", "names", "is_required"), [
    ("auto", ["do_it", "now"], False), (None, ["do_it", "now"], False),
    ("required", ["do_it", "now"], True), ("any", ["do_it", "now"], True), ("now", ["now"], True),
    ({"type": "function", "function": {"name": "now"}}, ["now"], True),
    ({"type": "tool", "name": "now"}, ["now"], True), ({"type": "auto"}, ["do_it", "now"], False)])
def test_choices(choice: Any, names: list[str], is_required: bool) -> None:
    called = answer_form(Rendered(TEMPLATES["elements"])).called(TOOLS, choice)
    assert called is not None
    assert ([c.tool for c in called.calls], called.is_required) == (names, is_required)


def test_no_calls_for_none_or_without_tools() -> None:
    form = answer_form(Rendered(TEMPLATES["elements"]))
    assert form.called(TOOLS, "none") is None
    assert form.called([], "auto") is None


@pytest.mark.parametrize("choice", ["never", 7, {"type": "function", "function": {"name": "x"}}])
def test_a_wrong_choice_is_an_error(choice: Any) -> None:
    with pytest.raises(InvalidArgument, match="tool_choice"):
        answer_form(Rendered(TEMPLATES["elements"])).called(TOOLS, choice)
