"""Chats through templates in Go's language: the prompt, the end of a turn, and how calls are
read."""

from __future__ import annotations

import datetime
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from unladen.chat.go_template import GoChatTemplate, is_go, template_of
from unladen.chat.learning import answer_form
from unladen.chat.parsing import Parser
from unladen.errors import InvalidArgument, TemplateError
from unladen.hub.gotemplate import render

THINKS = """\
{{- range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 -}}
<|im_start|>{{ .Role }}
{{ if and $.IsThinkSet .Thinking }}<mull>{{ .Thinking }}</mull>
{{ end }}{{ .Content }}{{ if not (and $last (eq .Role "assistant")) }}<|im_end|>
{{ end }}{{ if and $last (ne .Role "assistant") }}<|im_start|>assistant
{{ if and $.IsThinkSet (not $.Think) }}<mull></mull>
{{ end }}{{ end }}{{ end }}"""
"""A template that writes reasoning between marks of its own, where it is asked for it."""


@pytest.fixture(scope="module")
def data(shared: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (shared / "stores" / "gotemplates.json").read_text(encoding="utf-8"))
    return found


def test_prompts_are_those_of_ollama(data: dict[str, Any]) -> None:
    today = datetime.datetime.now()
    n_checked = 0
    for name, each in data["templates"].items():
        template = template_of(each["template"])
        assert isinstance(template, GoChatTemplate), name
        for conversation, expected in each["expected"].items():
            given = data["conversations"][conversation]
            if given.keys() - {"messages", "tools"}:
                continue  # ``system`` and ``prompt`` become messages before a template is rendered
            found = template.render(given["messages"], given.get("tools"))
            for word, day in (("currentDate", today),
                              ("yesterdayDate", today - datetime.timedelta(days=1))):
                expected = expected.replace(f"<<{word}>>", f"{day:%Y-%m-%d}")
            assert found == expected, (name, conversation)
            n_checked += 1
    assert n_checked > 250


@pytest.mark.parametrize(("name", "end"), [
    ("chatml-old", "<|im_end|>"), ("chatml-messages", "<|im_end|>"), ("llama3-old", "<|eot_id|>"),
    ("llama3-tools", "<|eot_id|>"), ("mistral-old", "</s>"), ("mistral-tools", "</s>"),
    ("gemma-old", "<end_of_turn>"), ("phi3-old", "<|end|>"), ("qwen25-tools", "<|im_end|>"),
    ("deepseek-r1", "<\uff5cend\u2581of\u2581sentence\uff5c>"), ("granite3", "<|end_of_text|>"),
    ("command-r", "<|END_OF_TURN_TOKEN|>"), ("vicuna", "</s>"), ("zephyr", "</s>")])
def test_the_end_of_a_turn_is_learned(data: dict[str, Any], name: str, end: str) -> None:
    form = answer_form(template_of(data["templates"][name]["template"]))
    assert form.stops[:1] == (end,)
    prompt = data["templates"][name]["expected"]["several"]
    assert not form.is_begun(prompt) and form.open_reasoning(prompt) is None


@pytest.mark.parametrize("name", ["llama3-tools", "mistral-tools", "qwen25-tools", "granite3",
                                  "command-r"])
def test_calls_are_read_as_the_template_writes_them(data: dict[str, Any], name: str) -> None:
    seed = secrets.token_hex(6)
    print(f"city: {seed}")
    template = template_of(data["templates"][name]["template"])
    assert template.takes_tools
    tools = data["conversations"]["tools"]["tools"]
    asked = [{"role": "user", "content": "Weather?"}]
    call = {"id": "call_000001", "type": "function", "function": {
        "name": "get_weather", "arguments": {"city": f"<{seed}> \u00e9", "days": 2}}}
    whole = template.render([*asked, {"role": "assistant", "content": "", "tool_calls": [call]}],
                            tools)
    form = answer_form(template)
    header = form.header.rpartition(">")[0] + ">" if ">" in form.header else form.header
    text = whole[whole.rindex(header) + len(header):] if name == "llama3-tools" else (
        whole.removeprefix(template.render(asked, tools)))
    if text.endswith(form.prompt_end):
        text = text.removesuffix(form.prompt_end) + form.stops[0]
    assert seed in text
    parser = Parser(form, tools, template.render(asked, tools))
    parser.feed(text.removesuffix(form.stops[0]))
    _, message = parser.finish()
    found, = message.tool_calls
    assert found.name == "get_weather"
    assert found.values() == {"city": f"<{seed}> \u00e9", "days": 2}
    assert not message.content.strip()


def test_reasoning_is_as_the_variables_say() -> None:
    template = GoChatTemplate(THINKS)
    asked: list[Any] = [{"role": "user", "content": "Hi"}]
    for variables, think in (({}, None), ({"enable_thinking": True}, True),
                             ({"thinking": False}, False),
                             ({"enable_thinking": True, "reasoning_effort": "low"}, "low")):
        assert template.render(asked, **variables) == render(THINKS, messages=asked, think=think)
    thought = [*asked, {"role": "assistant", "content": "Yo", "reasoning_content": "Greet."}]
    assert template.render(thought).endswith("<mull>Greet.</mull>\nYo")
    form = answer_form(template)
    assert form.reasoning[0].opening == "<mull>" and form.reasoning[0].closing == "</mull>"
    parser = Parser(form, prompt=template.render(asked))
    parser.feed("<mull>Short.</mull>\nHello")
    _, message = parser.finish()
    assert (message.reasoning, message.content) == ("Short.", "Hello")
    assert not template.takes_tools


def test_a_call_that_broke_off_ends_no_conversation() -> None:
    template = GoChatTemplate("{{ range .Messages }}{{ .Content }}{{ range .ToolCalls }}"
                              "[{{ .Function.Name }} {{ .Function.Arguments }}]{{ end }}{{ end }}")
    for arguments, expected in (('{"city": "Os', '{"city": "Os'), ('{"b":1, "a":[2]}',
                                '{"a":[2],"b":1}'), ("", "{}"), ("[1]", "[1]")):
        call = {"function": {"name": "f", "arguments": arguments}}
        assert template.render([{"role": "assistant", "tool_calls": [call]}, {
            "role": "user", "content": "On."}]) == f"[f {expected}]On."


def test_what_go_templates_have_no_place_for() -> None:
    template = GoChatTemplate("{{ .Prompt }}")
    with pytest.raises(InvalidArgument, match="documents"):
        template.render([{"role": "user", "content": "Hi"}], documents=["a"])
    with pytest.raises(InvalidArgument, match="text"):
        template.render([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])
    assert template.render([{"role": "user", "content": [
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]) == "a\nb"
    with pytest.raises(TemplateError) as caught:
        template_of("{{ if .System }}")
    assert caught.value.hint


@pytest.mark.parametrize(("text", "expected"), [
    ("{{ .Prompt }}", True), ("{{- range $i, $m := .Messages }}{{ end }}", True),
    ("{{ json .Messages }}", True), ("{{/* none */}}", True), ("{{ $x := 1 }}", True),
    ("{{ messages[0].content }}", False), ("{% if x %}{{ .System }}{% endif %}", False),
    ("{{ bos_token ~ messages[-1]['content'] }}", False), ("plain text", False),
    ("{{ message.content | trim }}", False), ("{{ iffy }}", False)])
def test_the_language_is_told_by_the_text(text: str, expected: bool) -> None:
    assert is_go(text) is expected
