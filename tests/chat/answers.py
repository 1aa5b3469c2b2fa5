"""Templates and random calls for tests of what models answer."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from unladen.chat.deltas import (
    CallArguments,
    CallBegun,
    CallFinished,
    ContentDelta,
    Delta,
    ReasoningDelta,
)
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.learning import answer_form
from unladen.chat.messages import Message
from unladen.chat.parsing import Parser
from unladen.chat.template import ChatTemplate


class Rendered:
    """A chat template with its tokens and the variables that it needs, ``fixed``."""

    def __init__(self, source: str, fixed: Mapping[str, Any] | None = None) -> None:
        self.source = source
        self._template = ChatTemplate(source)
        self._fixed = dict(fixed or {})

    def render(self, messages: Sequence[Any], tools: Sequence[Any] | None = None,
               **variables: Any) -> str:
        """The prompt."""
        return self._template.render(messages, tools, **{**variables, **self._fixed})


@cache
def template_in(shared: Path, name: str) -> Rendered:
    """The template called ``name`` in the shared data, with its tokens and variables."""
    about = _about(shared)[name]
    fixed = {key: about.get(key) or "" for key in ("bos_token", "eos_token")}
    source = (shared / "chat" / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
    return Rendered(source, fixed | (about.get("extra") or {}))


@cache
def form_in(shared: Path, name: str) -> AnswerForm:
    """The compiled form of the template called ``name``."""
    return answer_form(template_in(shared, name))


@cache
def _about(shared: Path) -> Mapping[str, Any]:
    about: Mapping[str, Any] = json.loads(
        (shared / "chat" / "rendered.json").read_text(encoding="utf-8"))["templates"]
    return about


def pieces(text: str, rng: random.Random) -> list[str]:
    """``text`` cut at random places."""
    cut: list[str] = []
    while text:
        n = rng.choice((1, 1, 2, 3, 5, 8, 21, 60))
        cut.append(text[:n])
        text = text[n:]
    return cut


def streamed(parser: Parser, texts: Sequence[str], is_cut: bool = False) -> Message:
    """The message that ``parser`` makes of ``texts``. Checks that it gave out exactly that, piece
    by piece, and each call's name once, before its arguments."""
    deltas: list[Delta] = []
    for text in texts:
        deltas += parser.feed(text)
    last, message = parser.finish(is_cut)
    deltas += last
    assert "".join(d.text for d in deltas if isinstance(d, ContentDelta)) == message.content
    assert "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)) == message.reasoning
    begun = [d for d in deltas if isinstance(d, CallBegun)]
    assert [(d.index, d.id, d.name) for d in begun] == [
        (i, c.id, c.name) for i, c in enumerate(message.tool_calls)]
    for i, call in enumerate(message.tool_calls):
        own = [d for d in deltas if getattr(d, "index", None) == i]
        assert isinstance(own[0], CallBegun)
        assert "".join(d.text for d in own if isinstance(d, CallArguments)) == call.arguments
        assert sum(isinstance(d, CallFinished) for d in own) == call.is_complete
    ids = [call.id for call in message.tool_calls]
    assert len({*ids}) == len(ids)
    assert all(ids)
    return message


def calls_of(message: Message) -> list[tuple[str, Any]]:
    """(name, values) of each call; None for the values of one that isn't complete."""
    return [(c.name, json.loads(c.arguments) if c.is_complete else None)
            for c in message.tool_calls]


TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {
    "name": "do_it", "description": "Do it.", "parameters": {
        "type": "object", "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"},
            "share": {"type": "number"}, "flag": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object"}, "either": {"type": ["string", "null"]}},
        "required": ["text"]}}}, {"type": "function", "function": {
            "name": "now", "description": "Tell the time.",
            "parameters": {"type": "object", "properties": {}, "required": []}}}]
"""The tools that random calls use."""
_BITS = ("a", " ", "é", "日本", "\U0001f600", '"', "'", "\\", "<b>", "&amp;", "{", "}", "[1]",
         "</x>", ",", ":", "=", "0", "null", "</", "<", ">", "%", "#", "(", ")", "|", "- ")


def random_text(rng: random.Random, lines: bool = True, avoid: Sequence[str] = ()) -> str:
    """A text that begins and ends with a letter."""
    bits = [*_BITS, *(("\n", "\n\n") if lines else ())]
    inner = "".join(rng.choice(bits) for _ in range(rng.randrange(9)))
    for word in avoid:
        inner = inner.replace(word, "_")
    return f"x{inner}y"


def random_call(rng: random.Random, **limits: Any) -> tuple[str, dict[str, Any]]:
    """(name, arguments) that fit :data:`TOOLS`, of strings with the ``limits`` of
    :func:`random_text`."""
    def text() -> str:
        return random_text(rng, **limits)
    if rng.random() < 0.2:
        return "now", {}
    values: dict[str, Any] = {
        "text": text(), "count": rng.randrange(-9, 99), "share": rng.randrange(1, 64) / 8,
        "flag": rng.random() < 0.5, "list": [text() for _ in range(rng.randrange(3))],
        "map": {"k": text(), "n": {"deep": [1, {"er": [True]}]}, "e": {}},
        "either": text()}
    chosen = [key for key in values if key == "text" or rng.random() < 0.5]
    return "do_it", {key: values[key] for key in chosen}


def history(calls: Sequence[tuple[str, Any]], content: str | None = "") -> list[dict[str, Any]]:
    """A user's message and an assistant's with ``calls``."""
    written = [{"id": f"Ab3dE6gH{i}", "type": "function",
                "function": {"name": name, "arguments": a}} for i, (name, a) in enumerate(calls)]
    return [{"role": "user", "content": "Qq"},
            {"role": "assistant", "content": content, "tool_calls": written}]
