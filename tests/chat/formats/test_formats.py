"""The formats by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from unladen.chat import ChatTemplate, render
from unladen.chat.formats import named, registry
from unladen.errors import InvalidArgument, TemplateError

TURNS = [{"role": "user", "content": "First question"},
         {"role": "assistant", "content": "First answer"},
         {"role": "user", "content": "Second question"}]
TEXTS = [turn["content"] for turn in TURNS]


@pytest.mark.parametrize("name", registry())
def test_a_conversation_is_written_in_its_order(name: str) -> None:
    text = named(name).render(TURNS, bos_token="<s>", eos_token="</s>")
    places = [text.index(part) for part in TEXTS]
    assert places == sorted(places)
    assert all(text.count(part) == 1 for part in TEXTS)


@pytest.mark.parametrize("name", registry())
def test_the_next_turn_begins_as_the_prompt_ended(name: str) -> None:
    """What follows the prompt in the history of a longer conversation is the answer."""
    template = named(name)
    prompt = template.render(TURNS[:1], bos_token="<s>", eos_token="</s>")
    longer = template.render(TURNS, bos_token="<s>", eos_token="</s>")
    assert longer.startswith(prompt.rstrip())
    assert longer[len(prompt.rstrip()):].lstrip().startswith("First answer")


@pytest.mark.parametrize("name", registry())
def test_a_system_text_is_written_or_refused(name: str) -> None:
    said = [{"role": "system", "content": "Be kind."}, TURNS[0]]
    try:
        text = named(name).render(said, bos_token="<s>", eos_token="</s>")
    except TemplateError as error:
        refused, text = error.refused, ""
    else:
        refused = False
    assert refused or text.count("Be kind.") == 1


def test_llama3_is_what_its_makers_publish() -> None:
    """Meta's documentation of the format, by hand."""
    said = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    assert named("llama3").render(said, bos_token="<|begin_of_text|>") == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n")


@pytest.mark.parametrize(("name", "published", "roles"), [
    ("gemma", "google-gemma-3-4b-it", ("system", "user", "assistant", "user")),
    ("gemma", "google-gemma-2-2b-it", ("user", "assistant", "user")),
    ("phi3", "microsoft-Phi-3.5-mini-instruct", ("user",)),
    ("phi3", "microsoft-Phi-3.5-mini-instruct", ("system", "user", "assistant", "user")),
    ("chatml", "Qwen-Qwen2.5-7B-Instruct", ("system", "user", "assistant", "user")),
    ("granite", "ibm-granite-granite-3.3-2B-Instruct", ("system", "user", "assistant", "user")),
    ("deepseek", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", ("system", "user"))])
def test_formats_are_what_makers_publish(name: str, published: str, roles: tuple[str, ...],
                                         shared: Path) -> None:
    source = (shared / f"chat/templates/{published}.jinja").read_text(encoding="utf-8")
    said = [{"role": role, "content": f"Text {i} of {role}."} for i, role in enumerate(roles)]
    tokens = {"bos_token": "<bos>", "eos_token": "<|endoftext|>"}
    expected = render(source, said, **tokens).removesuffix("<think>\n")
    assert named(name).render(said, **tokens) == expected


def test_the_system_text_of_mistral_stands_before_the_last_question() -> None:
    said = [{"role": "system", "content": "S"}, *TURNS[:2]]
    text = named("mistral").render([*said, TURNS[2]], bos_token="<s>", eos_token="</s>")
    assert text == ("<s>[INST] First question[/INST] First answer</s>"
                    "[INST] S\n\nSecond question[/INST]")
    assert named("mistral").render(said, eos_token="</s>").count("S\n\n") == 1


def test_an_unknown_format_names_those_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="chatml"):
        named("nothing")


def test_the_registry_has_templates() -> None:
    for source in registry().values():
        assert isinstance(ChatTemplate(source), ChatTemplate)
