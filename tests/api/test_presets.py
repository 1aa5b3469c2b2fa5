"""Models of Ollama's store: their templates, messages and parameters."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import Any

import pytest

import ollama_store
from unladen import Model
from unladen.api.begin import chat_abilities
from unladen.gguf.glance import glance
from unladen.hub import INCLUDED, find_model
from unladen.hub.creating import copy
from unladen.hub.gotemplate import render

CHAT = INCLUDED["tiny-chat"]
TEMPLATE = """\
{{- if or .System .Tools }}<|im_start|>system
{{ .System }}{{ range .Tools }}
{{ . }}{{ end }}<|im_end|>
{{ end }}{{ range .Messages }}{{ if ne .Role "system" }}<|im_start|>{{ .Role }}
{{ .Content }}{{ range .ToolCalls }}<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ end }}<|im_end|>
{{ end }}{{ end }}<|im_start|>assistant
"""
USER = {"role": "user", "content": "Hello!"}
FIRST = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ahoy."}]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store without models."""
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "store"))
    monkeypatch.setenv("UNLADEN_MODELS", str(tmp_path / "created"))
    return tmp_path / "store"


def opened(name: str, **parameters: Any) -> Model:
    return Model(name, devices=["cpu"], n_threads=1, **parameters)


def test_a_chat_goes_through_the_stores_template(store: Path) -> None:
    keeper = f"You keep lighthouse {secrets.token_hex(3)}."
    ollama_store.add(store, "talk:1b", CHAT, template=TEMPLATE, system=keeper, messages=FIRST,
                     params={"temperature": 0.0})
    with opened("talk:1b") as model:
        assert model._format(None, None, None).template.source == TEMPLATE and model.has_template
        own = {"role": "system", "content": "Be brief."}
        for asked, whole in (
                ([USER], [{"role": "system", "content": keeper}, *FIRST, USER]),
                ([own, USER], [own, *FIRST, USER])):
            prompt = model._prompt(asked, None, "auto", {})
            assert prompt.text == render(TEMPLATE, messages=whole)
            assert prompt.ids == model.tokenize(prompt.text)
        answer = model.chat([USER], max_tokens=12)
        assert answer.tokens == model.generate(
            model.tokenize(model._prompt([USER], None, "auto", {}).text), max_tokens=12).tokens
        assert chat_abilities(model) == ["tools"]
        with model.session() as session:  # what the recipe adds is in the prompt, not in messages
            said = session.say("Hello!", max_tokens=12)
            assert said.tokens == answer.tokens
            assert [m["role"] for m in session.messages] == ["user", "assistant"]


def test_calls_of_tools_are_held_to_the_tools_and_read(store: Path) -> None:
    ollama_store.add(store, "talk", CHAT, template=TEMPLATE)
    tools = [{"type": "function", "function": {"name": "zq_look", "parameters": {
        "type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}}}]
    with opened("talk") as model:
        answer = model.chat([USER], tools=tools, tool_choice="required", seed=secrets.randbits(32),
                            max_tokens=200)
        assert "zq_look" in model._prompt([USER], tools, "auto", {}).text
    call = answer.tool_calls[0]
    assert call.name == "zq_look" and call.values()["n"] in (1, 2)


def test_parameters_stand_below_what_the_caller_gives(
        store: Path, caplog: pytest.LogCaptureFixture) -> None:
    ollama_store.add(store, "set", CHAT, template=TEMPLATE, params={
        "temperature": 0, "num_predict": 5, "num_ctx": 512.0, "num_batch": 64, "num_gpu": -1,
        "top_k": "many", "repeat_last_n": 32, "num_keep": 4, "stop": ["\x00never"]})
    with caplog.at_level(logging.WARNING, "unladen"), opened("set") as model:
        assert "top_k" in caplog.text
        assert model.context_size == 512
        assert dict(model.sampling_defaults) == {"temperature": 0, "penalty_last_n": 32}
        long = model.chat([USER], max_tokens=9, ignore_eos=True)
        short = model.chat([USER], ignore_eos=True)
        assert short.usage.n_completion == 5 and short.stop_reason == "length"
        assert long.tokens[:5] == short.tokens and long.usage.n_completion == 9
        assert model.generate("One", ignore_eos=True).usage.n_completion == 5
        assert model.chat([USER], max_tokens=None, stop=()).usage.n_completion == 5
    with opened("set", context_size=300) as model:
        assert model.context_size == 300


def test_stops_end_answers_unless_others_are_given(store: Path) -> None:
    with opened("tiny-chat") as model:
        whole = model.chat([USER], temperature=0, max_tokens=30, ignore_eos=True).text
    stop = whole[4:7]
    ollama_store.add(store, "ends", CHAT, params={"temperature": 0, "stop": [stop]})
    with opened("ends") as model:  # without a template of its own it has the file's
        answer = model.chat([USER], max_tokens=30, ignore_eos=True)
        assert answer.text == whole[:whole.index(stop)] and answer.stop_reason == "stop"
        assert model.chat([USER], max_tokens=30, ignore_eos=True, stop="\x00").text == whole
        assert model.chat([USER], max_tokens=30, ignore_eos=True, stop=[]).text == whole


def test_several_answers_with_a_seed_differ(store: Path) -> None:
    ollama_store.add(store, "seeded", CHAT, params={"seed": 7, "temperature": 5})
    with opened("seeded") as model:
        several = model.chat([USER], n=3, max_tokens=24, ignore_eos=True)
        assert len({choice.text for choice in several.choices}) > 1
        assert several.choices[0].tokens == model.chat(
            [USER], max_tokens=24, ignore_eos=True).tokens


def test_the_context_is_at_most_what_the_model_was_trained_for(
        store: Path, caplog: pytest.LogCaptureFixture) -> None:
    ollama_store.add(store, "wide", CHAT, params={"num_ctx": 1 << 40})
    with caplog.at_level(logging.WARNING, "unladen"), opened("wide") as model:
        trained = model.metadata["llama.context_length"]
        assert model.context_size == trained and "num_ctx" in caplog.text


def test_a_built_in_format_of_ollama_is_the_files(store: Path) -> None:
    ollama_store.add(store, "built", CHAT, template="{{ .Prompt }}", config={"renderer": "zq"})
    ollama_store.add(store, "plain", INCLUDED["tiny"], template="{{ .Prompt }}!",
                     config={"renderer": "zq"})
    with opened("built") as model, opened("tiny-chat") as same:
        assert model._format(None, None, None).template.source == same._format(
            None, None, None).template.source
    with opened("plain") as model:  # the file has no template
        assert model._prompt([USER], None, "auto", {}).text == "Hello!!"
    for name in ("built", "plain"):  # a copy does the same
        copy(name, f"own-{name}", lambda text: find_model(text, aliases=INCLUDED).path, glance)
        with opened(name) as model, opened(f"own-{name}") as same:
            assert model._format(None, None, None).template.source == same._format(
                None, None, None).template.source


def test_a_malformed_message_is_left_out_and_told(store: Path, caplog: pytest.LogCaptureFixture
                                                  ) -> None:
    odd: Any = [{"role": "user"}, *FIRST, 7]
    ollama_store.add(store, "odd", CHAT, template=TEMPLATE, messages=odd)
    with opened("odd") as model:
        prompt = model._prompt([USER], None, "auto", {})
    assert prompt.text == render(TEMPLATE, messages=[*FIRST, USER])
    assert [line for line in caplog.messages if "left out" in line] == [
        "message 1 of 4 of odd:latest is left out: its content is no text",
        "message 4 of 4 of odd:latest is left out: it is no message"]
