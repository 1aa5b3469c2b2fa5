"""The chat model in the package: its file, its template, and what it answers.

The answers are greedy, to dialogues that the composer makes from a fresh seed: new names, numbers
and stories. The shares that must be right are below those that were measured over many seeds.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from unladen import Model
from unladen.gguf import open_gguf
from unladen.hub import INCLUDED
from unladen.tokenizer import Tokenizer
from unladen.tokenizer.fields import TokenType

MODEL = INCLUDED["tiny-chat"]
MAX_BYTES = 6_000_000
"""The models in the package have no more bytes together."""
MARKS = {"<|im_start|>": TokenType.CONTROL, "<|im_end|>": TokenType.CONTROL,
         "<think>": TokenType.USER_DEFINED, "</think>": TokenType.USER_DEFINED,
         "<tool_call>": TokenType.USER_DEFINED, "</tool_call>": TokenType.USER_DEFINED}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model("tiny-chat") as opened:
        yield opened


def written(dialogue: Any, n: int | None = None, *, ask: bool = False) -> str:
    """What the template makes of the first ``n`` messages, written without it."""
    messages = list(dialogue.messages[:n])
    text = ""
    if dialogue.tools:
        lines = ["# Tools", *map(json.dumps, dialogue.tools)]
        if messages[0]["role"] == "system":
            lines.insert(0, messages.pop(0)["content"] + "\n")
        text = "<|im_start|>system\n" + "\n".join(lines) + "<|im_end|>\n"
    for message in messages:
        thought = message.get("reasoning_content", "")
        calls = [json.dumps(call["function"]) for call in message.get("tool_calls", ())]
        parts = [message["content"]] if message["content"] else []
        parts += [f"<tool_call>\n{call}\n</tool_call>" for call in calls]
        text += (f"<|im_start|>{message['role']}\n" + f"<think>\n{thought}\n</think>\n\n" * bool(
            thought) + "\n".join(parts) + "<|im_end|>\n")
    if ask:
        text += "<|im_start|>assistant\n" + "<think>\n" * dialogue.thinks
    return text


def test_the_models_are_small_and_complete() -> None:
    assert sum(path.stat().st_size for path in INCLUDED.values()) < MAX_BYTES
    with open_gguf(MODEL) as file:
        tokens = [str(token) for token in file.metadata["tokenizer.ggml.tokens"]]
        types = dict(zip(tokens, file.metadata["tokenizer.ggml.token_type"], strict=True))
        assert {mark: types[mark] for mark in MARKS} == MARKS
        assert file.metadata["general.license"] == "apache-2.0"
        tokenizer = Tokenizer.from_gguf(file.metadata)
    end = tokens.index("<|im_end|>")
    assert tokenizer.eos_id == tokenizer.token_ids["eot"] == end
    assert end in tokenizer.eog_ids
    assert not tokenizer.add_bos


def test_the_file_holds_the_template(dialogues: ModuleType) -> None:
    with open_gguf(MODEL) as file:
        assert str(file.metadata["tokenizer.chat_template"]) == dialogues.TEMPLATE


def test_it_reads_as_it_was_taught(dialogues: ModuleType, rng: np.random.Generator) -> None:
    vocab = importlib.import_module("vocab")
    with open_gguf(MODEL) as file:
        pieces = [str(piece) for piece in file.metadata["tokenizer.ggml.tokens"]]
        tokenizer = Tokenizer.from_gguf(file.metadata)
    encoder = vocab.Encoder(pieces, vocab.APART, "", MARKS)
    for dialogue in dialogues.compose(int(rng.integers(2**32)), 100):
        text = written(dialogue)
        assert list(tokenizer.encode(text)) == encoder.encode(text)
        assert tokenizer.decode(tokenizer.encode(text), special=True) == text


@pytest.mark.parametrize("options", [{}, {"trim_blocks": True, "lstrip_blocks": True}],
                         ids=["plain", "trimmed"])
def test_the_template_writes_dialogues(dialogues: ModuleType, rng: np.random.Generator,
                                       options: dict[str, bool]) -> None:
    jinja2 = pytest.importorskip("jinja2")
    environment = jinja2.Environment(**options)
    environment.filters["tojson"] = json.dumps
    template = environment.from_string(dialogues.TEMPLATE)
    for dialogue in dialogues.compose(int(rng.integers(2**32)), 200):
        for n in range(1, len(dialogue.messages) + 1):
            for ask in (False, True):
                assert template.render(
                    messages=dialogue.messages[:n], tools=dialogue.tools,
                    add_generation_prompt=ask, enable_thinking=dialogue.thinks
                ) == written(dialogue, n, ask=ask)


def test_arguments_may_be_text(dialogues: ModuleType) -> None:
    pytest.importorskip("jinja2")
    call = {"function": {"name": "calculator", "arguments": '{"expression": "1 + 2"}'}}
    text = dialogues.template().render(messages=[
        {"role": "assistant", "content": None, "tool_calls": [call]}])
    assert text == ('<|im_start|>assistant\n<tool_call>\n{"name": "calculator", "arguments": '
                    '{"expression": "1 + 2"}}\n</tool_call><|im_end|>\n')


@pytest.mark.parametrize(("kind", "least"), [
    ("greetings", 0.8), ("its part in a system prompt", 0.8), ("what was just said", 0.6),
    ("what was said earlier", 0.8), ("facts of a story", 0.7), ("sums", 0.5),
    ("sums in words", 0.5), ("conversions", 0.5), ("other tools", 0.45), ("wording a result", 0.8),
    ("simple facts", 0.8), ("not knowing", 0.7), ("thinking first", 0.65)])
def test_answers(model: Model, score_chat: ModuleType, rng: np.random.Generator, kind: str,
                 least: float) -> None:
    scored = score_chat.KINDS[kind]
    assert score_chat.share_right(model, scored, int(rng.integers(2**32)), 40, True) >= least


def test_every_kind_is_tested(score_chat: ModuleType) -> None:
    marks = test_answers.pytestmark  # type: ignore[attr-defined]
    assert [kind for kind, _ in marks[0].args[1]] == list(score_chat.KINDS)
