"""Control marks in a caller's texts stay text, and change nothing else of what templates make."""

from __future__ import annotations

import copy
import json
import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unladen.chat import ChatTemplate
from unladen.chat.control_marks import PRIVATE, Marks, shown
from unladen.chat.prompt import PromptMaker
from unladen.errors import InvalidArgument, TemplateError
from unladen.gguf import open_gguf
from unladen.storage.mapping import map_file
from unladen.tokenizer import Tokenizer

pytest.importorskip("jinja2")

SHARED = Path(__file__).resolve().parents[3] / "shared"
TEMPLATES = sorted(SHARED.glob("chat/templates/*.jinja"))
VOCABS = sorted(SHARED.glob("vocabs/*.gguf"))
MARKS = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "<|\"|>", "<end_of_turn>",
         "<\uff5cend▁of▁sentence\uff5c>", "<think>", "</think>", "<tool_call>", "[TOOL_CALLS]"]
VARIABLES = {"functions": "[]", "datetime": "now"}
"""Variables without which one of the templates renders nothing."""


@pytest.fixture
def random_() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    return random.Random(seed)


def attacked(value: Any, rng: random.Random) -> Any:
    """``value`` with marks, whole and in pieces, in its texts; names stay."""
    if isinstance(value, str):
        mark = rng.choice(MARKS)
        where = rng.randrange(len(value) + 1)
        return rng.choice([value[:where] + mark + value[where:], value + mark[:3],
                           mark[2:] + value, f"  {mark}\n{value}\t{mark}{mark} "])
    if isinstance(value, list):
        return [attacked(part, rng) for part in value]
    if isinstance(value, dict):
        return {key: part if key in ("role", "type", "id", "name", "tool_call_id")
                else attacked(part, rng) for key, part in value.items()}
    return value


def conversations() -> Iterator[dict[str, Any]]:
    path = SHARED / "chat/conversations.json"
    if path.exists():
        yield from json.loads(path.read_text(encoding="utf-8"))["conversations"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_make_the_same_text(path: Path, random_: random.Random) -> None:
    """With its marks hidden, a conversation renders to the same text, unless the template looks
    for marks itself; and each mark in it is hidden."""
    template, marks = ChatTemplate(path.read_text(encoding="utf-8")), Marks(MARKS)
    n_same = n = 0
    for conversation in conversations():
        messages = [{**m, "content": attacked(m["content"], random_)} if "content" in m else m
                    for m in conversation["messages"]]
        tools = copy.deepcopy(conversation["tools"])
        try:
            bare = template.render(messages, tools, **VARIABLES)
        except TemplateError:
            continue
        hidden, private = marks.hide(messages, template.source)
        try:
            text, ranges = shown(template.render(hidden, tools, **VARIABLES), private)
        except TemplateError:
            continue
        n += 1
        n_same += text == bare
        own = template.render([{**m, "content": ""} for m in messages], tools, **VARIABLES)
        for mark in MARKS:
            visible = sum(not any(first < at + len(mark) and at < last for first, last in ranges)
                          for at in places(text, mark))
            assert visible <= len(places(own, mark)) + MORE, mark
    assert n_same >= n * 0.7 > 0


MORE = 8
"""Marks that a template writes for contents only: it leaves out turns that are empty."""


def places(text: str, mark: str) -> list[int]:
    return [i for i in range(len(text)) if text.startswith(mark, i)]


def tokenizer_of(path: Path) -> Tokenizer:
    file = open_gguf(str(path), map_file(str(path)))
    return Tokenizer.from_gguf(file.metadata, str(path))


@pytest.mark.parametrize("path", VOCABS, ids=lambda path: path.stem)
def test_tokens(path: Path, random_: random.Random) -> None:
    """Between a template's marks a message has the tokens that it has without special tokens."""
    tokenizer = tokenizer_of(path)
    marks = [text for text in tokenizer.control_texts if text.strip()]
    mark = random_.choice(marks)
    own = tokenizer.control_texts[mark]
    template = ChatTemplate("{% for m in messages %}{{ bos_token[:0] ~ '" + mark.replace("'", "\\'")
                            + "' ~ m.content ~ '" + mark.replace("'", "\\'") + "' }}{% endfor %}")
    for _ in range(20):
        words = [random_.choice([*marks, "word", " ", "\n", "<", "|>", "x y", "Ünï", "12"])
                 for _ in range(random_.randrange(1, 12))]
        content = "".join(words)
        ids = PromptMaker(template, tokenizer)([{"role": "user", "content": content}]).ids
        starts = ids[:1] == [tokenizer.bos_id] and tokenizer.add_bos and own != tokenizer.bos_id
        inner = ids[starts:]
        assert inner[0] == own and inner[-1] == own
        expected = tokenizer.encode(content, add_special=False, special=False,
                                    continues=not tokenizer.starts_text(own))
        if not strips(tokenizer, own):
            assert inner[1:-1] == expected, repr(content)
        assert own not in inner[1:-1] or own in expected


def strips(tokenizer: Tokenizer, token: int) -> bool:
    """Whether white space beside ``token`` gets lost."""
    text = next(text for text, found in tokenizer.control_texts.items() if found == token)
    return (tokenizer.encode(f"{text}\n\nx", add_special=False)
            == tokenizer.encode(f"{text}x", add_special=False))


def test_pieces_that_become_a_mark() -> None:
    """Two messages, or a message and the template, can't write a mark together."""
    marks = Marks(["<|end|>"])
    for pieces in (["<|e", "nd|>"], ["<", "|end|>"], ["<|end|", ">"]):
        hidden, private = marks.hide(pieces)
        text, ranges = shown("".join(hidden), private)
        assert text == "<|end|>" and ranges


def test_private_characters_of_the_caller_stay() -> None:
    text = "a\U00100000b<|end|>\U00100001"
    hidden, private = Marks(["<|end|>"]).hide([text])
    assert "<|end|>" not in hidden[0]
    assert shown(hidden[0], private)[0] == text


def test_a_caller_who_uses_all_private_characters_is_told() -> None:
    with pytest.raises(InvalidArgument, match="private characters"):
        Marks(["<|end|>"]).hide(["".join(map(chr, PRIVATE)), "<|end|>"])


def test_texts_without_marks_are_not_copied() -> None:
    values = [{"content": "no mark"}]
    assert Marks(["<|end|>"]).hide(values) == (values, {})
    assert Marks(["<|end|>"]).hide(values)[0] is values


def test_a_template_that_looks_for_the_end_of_reasoning_finds_it() -> None:
    """In an assistant's message, not in a user's."""
    class Vocabulary:
        control_texts = {"</think>": 1}
        bos_id = eos_id = None
        add_bos = False

        def encode(self, text: str, **options: Any) -> list[int]:
            return [0]

    template = ChatTemplate("{% for m in messages %}<{{ m.content.split('</think>')[-1] }}>"
                            "{% endfor %}")
    make = PromptMaker(template, Vocabulary())  # type: ignore[arg-type]
    said = {"role": "assistant", "content": "Hm.</think>Yes."}
    assert make([{"role": "user", "content": "Really?"}, said]).text == "<Really?><Yes.>"
    user = {"role": "user", "content": "a</think>b"}
    assert make([user]).text == "<a</think>b>"
