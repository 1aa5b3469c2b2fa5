"""Models by names that have settings: ``unladen.Model`` and the server's workers follow them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.stores.conftest import no_stores as no_stores
from hub.test_creating import make
from unladen import Model, plan
from unladen.api.begin import chat_prompt
from unladen.chat.go_template import GoChatTemplate, template_of
from unladen.hub.gotemplate import render
from unladen.hub.gotemplate.telling import is_go
from unladen.hub.preset import Preset

GO = """{{- range $i, $_ := .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
"""
JINJA = ("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
         "{% if add_generation_prompt %}[assistant]{% endif %}")
HELLO = [{"role": "user", "content": "Hello"}]
CPU: dict[str, Any] = {"devices": ["cpu"], "n_threads": 1}


def text_of(model: Model, messages: Any = HELLO, **parameters: Any) -> str:
    return chat_prompt(model, messages, parameters).text


@pytest.fixture
def keeper(no_stores: Path) -> Iterator[Model]:
    make("keeper", "FROM tiny-chat\nSYSTEM You keep a lighthouse.\nPARAMETER temperature 0\n"
                   "PARAMETER num_predict 5\nPARAMETER num_ctx 300\nPARAMETER seed 7\n"
                   "PARAMETER stop lighthouse\nMESSAGE user Ahoy\nMESSAGE assistant Aye\n")
    with Model("keeper", **CPU) as model:
        yield model


def test_settings_hold_where_the_caller_gives_none(keeper: Model) -> None:
    assert keeper.context_size == 300
    assert keeper.sampling_defaults["temperature"] == 0 and keeper.sampling_defaults["seed"] == 7
    answer = keeper.chat(HELLO)
    assert (answer.usage.n_completion, answer.stop_reason) == (5, "length")
    assert keeper.chat(HELLO).text == answer.text
    assert keeper.chat(HELLO, max_tokens=3).usage.n_completion == 3
    assert keeper.generate("Hello").usage.n_completion == 5
    with Model("keeper", context_size=200, **CPU) as other:
        assert other.context_size == 200
    assert plan("keeper", devices=["cpu"]).context_size == 300


def test_what_is_given_counts_also_where_it_is_the_default(no_stores: Path) -> None:
    make("small", "FROM tiny-chat\nPARAMETER num_batch 64\nPARAMETER main_gpu 1\n"
                  "PARAMETER num_ctx 300\nPARAMETER draft_num_predict 3\n")
    for given, n_batch, n_draft in (({}, 64, 3), ({"batch_size": 512}, 300, 3),
                                    ({"n_batch": 512, "n_draft": 15}, 300, 15),
                                    ({"context_size": None}, 64, 3)):
        with Model("small", **CPU, main_gpu=0, **given) as model:
            assert model.engine.plan.blueprint.limits.n_tokens == n_batch
            assert (model._n_draft, model.context_size) == (n_draft, 300)


def test_messages_begin_with_those_of_the_settings(keeper: Model) -> None:
    text = text_of(keeper)
    places = [text.index(word) for word in ("You keep a lighthouse.", "Ahoy", "Aye", "Hello")]
    assert places == sorted(places)
    own = text_of(keeper, [{"role": "system", "content": "Be brief."}, *HELLO])
    assert "lighthouse" not in own and "Be brief." in own and "Ahoy" in own
    with keeper.session() as session:
        session.say("Hello")
        assert [each["role"] for each in session.messages] == ["user", "assistant"]


def test_a_stop_of_the_settings(no_stores: Path) -> None:
    make("plain", "FROM tiny-chat\nPARAMETER temperature 0\nPARAMETER num_predict 40\n")
    with Model("plain", **CPU) as model:
        whole = model.chat(HELLO).text
    word = whole.split()[1]
    make("stops", f"FROM plain\nPARAMETER stop {word}\n")
    with Model("stops", **CPU) as model:
        answer = model.chat(HELLO)
        assert answer.text == whole[:whole.index(word)] and answer.stop_reason == "stop"
        assert model.chat(HELLO, stop=["\x00"]).text == whole


@pytest.mark.parametrize(("template", "begins"), [
    (GO, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"),
    (JINJA, "[system] Be brief.\n[user] Hello\n[assistant]"), ("chatml", "<|im_start|>system")])
def test_templates(no_stores: Path, template: str, begins: str) -> None:
    make("keeper", f'FROM tiny\nSYSTEM Be brief.\nTEMPLATE """{template}"""\n')
    with Model("keeper", **CPU) as model:
        assert model.has_template and text_of(model).startswith(begins)
        assert model.chat(HELLO, max_tokens=3).usage.n_completion == 3
        assert text_of(model, template="{{ messages[-1].content }}") == "Hello"
    with Model("tiny", **CPU) as model:
        assert not model.has_template


def test_a_go_template_as_a_chat_template() -> None:
    template = template_of(GO)
    assert isinstance(template, GoChatTemplate) and template.takes_parts
    assert template.render(HELLO) == render(GO, messages=HELLO)
    broken = [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "a", "arguments": '{"city": "Par'}}]}, *HELLO]
    assert "Hello" in template.render(broken)
    thinks = template_of("{{ if .IsThinkSet }}{{ .Think }}{{ .ThinkLevel }}{{ end }}{{ .Prompt }}")
    assert thinks.render(HELLO, enable_thinking=False) == "falseHello"
    assert thinks.render(HELLO, reasoning_effort="low", enable_thinking=True) == "truelowHello"
    assert thinks.render(HELLO) == "Hello"


@pytest.mark.parametrize(("text", "is_gos"), [
    (GO, True), (JINJA, False), ("{{ .Prompt }}", True), ("{{- if .System }}x{{ end }}", True),
    ("{{ messages[0].content }}", False), ("{{ bos_token }}", False), ("chatml", False),
    ("{{/* a comment */}}{{ $x := .Prompt }}", True), ("{# a comment #}{{ x }}", False),
    ("{{ range .Messages }}{{ end }}", True), ("plain", False)])
def test_go_or_jinja(text: str, is_gos: bool) -> None:
    assert is_go(text) == is_gos


def test_parameters_that_can_not_be_used_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Another program's store may hold anything."""
    preset = Preset(parameters={
        "temperature": "hot", "top_k": 3, "num_ctx": [], "num_gpu": 2, "stop": ["a"], "x": 1,
        "num_predict": -2, "num_thread": 0, "seed": None})
    assert preset.answering() == {"top_k": 3, "stop": ["a"]}
    assert preset.loading() == {"n_gpu_layers": 2}
    said = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert len(said) == 2 and "temperature" in said[1] + said[0]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for workers in /proc")
def test_a_server_follows_them(no_stores: Path) -> None:
    pytest.importorskip("starlette")
    from server.hosting import asked, hosting, run
    from server.hosting import text_of as said_in
    from unladen.server.asked import Chat, Count
    from unladen.server.events import Prompt
    from unladen.server.settings import ModelSettings
    make("keeper", "FROM tiny-chat\nSYSTEM You keep a lighthouse.\nPARAMETER temperature 0\n"
                   "PARAMETER num_predict 4\nPARAMETER num_ctx 300\n")

    async def test() -> None:
        own = ModelSettings("keeper", "keeper", options=CPU)
        async with hosting(own, allow_any=True, max_loaded=1) as core:
            card = await core.card("keeper")
            assert card.preset["system"] == "You keep a lighthouse." and "chat" in card.can
            question = Chat(messages=HELLO)
            events = await asked(core, "keeper", question)
            assert said_in(events) and events[-1].n_completion == 4  # type: ignore[union-attr]
            assert (await core.card("keeper")).context_size == 300
            prompt = await core.result("keeper", Count(chat=question))
            assert isinstance(prompt, Prompt) and "lighthouse" in prompt.text
            await core.unload("keeper")
            # What changes in the record shows at the next look, and at the next load.
            make("keeper", "FROM tiny-chat\nSYSTEM You keep a zoo.\n")
            assert (await core.card("keeper")).preset["system"] == "You keep a zoo."
            prompt = await core.result("keeper", Count(chat=question))
            assert isinstance(prompt, Prompt) and "zoo" in prompt.text
            make("other:v2", "FROM keeper\nSYSTEM You keep bees.\n")
            prompt = await core.result("other:v2", Count(chat=question))
            assert isinstance(prompt, Prompt) and "bees" in prompt.text

    run(test)
