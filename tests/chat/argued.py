"""Random schemas of tools, arguments that fit them, and texts that a constraint lets pass."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.parsing import parse_answer
from unladen.chat.wanted import ReasoningBudget, language_of_answer
from unladen.sample.constrain.base import Mask, n_words
from unladen.sample.constrain.guide import Guide
from unladen.sample.constrain.language import Language

NAMES = ("a", "ab", "abc", "a_b", "x.y", "n-1", "größe", "name", "parameter", "key")
"""Names of arguments, some of which begin with others."""
TEXTS = ("", "x", "ab", "a b", "<b>", "</b>", "true", "null", "7", "[1]", "{}", "é\U0001f600", '"',
         "'", "a\nb", "&lt;", "a\\n", "<parameter=a>", "</", "- x", "None")
"""Texts that could be taken for something else."""


def schema_of(rng: random.Random, texts: Sequence[str] = TEXTS, depth: int = 2) -> Any:
    """The schema of a value."""
    kinds = ["string", "string", "enum", "integer", "number", "boolean", "null", "nullable",
             "lengths", "pattern", "mixed", "ref", "any"]
    kinds += ["array", "object", "either", "either"] * (depth > 0)
    match rng.choice(kinds):
        case "enum":
            return {"type": "string", "enum": rng.sample(texts, 3)}
        case "nullable":
            return rng.choice([{"type": ["string", "null"]},
                               {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}])
        case "lengths":
            return {"type": "string", "minLength": rng.randrange(3), "maxLength": 6}
        case "pattern":
            return {"type": "string", "pattern": "^[a-c]+-[0-9]{2}$"}
        case "mixed":
            return {"enum": [*rng.sample(("x", "<b>", "on", "a b"), 2), 5, None, True]}
        case "ref":
            return {"$ref": f"#/$defs/{rng.choice(('color', 'point'))}"}
        case "any":
            return {"description": "Anything."}
        case "array":
            return {"type": "array", "items": schema_of(rng, texts, depth - 1), "maxItems": 3}
        case "object":
            return object_of(rng, texts, depth - 1)
        case "either":
            return {"anyOf": [{"type": "string"}, rng.choice([
                {"type": "array", "items": {"type": "integer"}}, {"type": "integer"},
                {"$ref": "#/$defs/point"}, {"type": "boolean"}])]}
        case "integer":
            return rng.choice([{"type": "integer"}, {"type": "integer", "minimum": -5,
                                                     "maximum": 90}])
        case kind:
            return {"type": kind}


def object_of(rng: random.Random, texts: Sequence[str] = TEXTS, depth: int = 2) -> dict[str, Any]:
    """The schema of an object."""
    names = rng.sample(NAMES, rng.randrange(4))
    return {"type": "object", "properties": {
        name: schema_of(rng, texts, depth) for name in names},
        "required": [name for name in names if rng.random() < 0.5], "additionalProperties": False}


def tool_of(rng: random.Random, texts: Sequence[str] = TEXTS) -> dict[str, Any]:
    """A tool as OpenAI's clients write it."""
    return {"type": "function", "function": {"name": "do_it", "parameters": {
        **object_of(rng, texts), "$defs": {
            "color": {"enum": ["red", "blue"]},
            "point": {"type": "object", "properties": {
                "x": {"type": "integer"}, "to": {"$ref": "#/$defs/point"}}, "required": ["x"],
                "additionalProperties": False}}}}}


def value_of(rng: random.Random, schema: Mapping[str, Any], root: Mapping[str, Any],
             texts: Sequence[str] = TEXTS) -> Any:
    """A value that fits ``schema``, with the properties in its order."""
    if "$ref" in schema:
        return value_of(rng, root["$defs"][schema["$ref"].rpartition("/")[2]], root, texts)
    if "anyOf" in schema:
        return value_of(rng, rng.choice(schema["anyOf"]), root, texts)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type", rng.choice(["integer", "boolean", "array", "object"]))
    if isinstance(kind, list):
        kind = rng.choice(kind)
    match kind:
        case "integer":
            return rng.randrange(-5, 90)
        case "number":
            return rng.choice([0.5, -3.25, 7, 1e3])
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [value_of(rng, schema["items"], root, texts)
                    for _ in range(rng.randrange(4))] if "items" in schema else [1, "x"]
        case "object":
            required = schema.get("required", ())
            return {name: value_of(rng, inner, root, texts)
                    for name, inner in schema.get("properties", {}).items()
                    if name in required or rng.random() < 0.4}
        case "null":
            return None
    if "pattern" in schema:
        return f"{rng.choice('abc')}-{rng.randrange(10, 99)}"
    least = schema.get("minLength", 0)
    fitting = [t for t in texts if least <= len(t) <= schema.get("maxLength", 99)]
    return rng.choice(fitting)


def accepts(guide: Guide, language: Language, text: str) -> bool:
    """Whether a whole text is of ``language``, as the masks say, token by token. Where a mask
    forces another cut of the same text, the test follows that."""
    constraint: Any = language.make(guide)()
    out = np.zeros(n_words(max(len(guide.tokens), *guide.ends) + 1), np.uint32)
    left = [*guide.ids_of(text), guide.ends[0]]
    while left:
        out[:] = 0
        constraint.mask(out)
        if not out[left[0] // 32] >> (left[0] % 32) & 1:
            left = _cut_as_forced(guide, constraint, out, left)
            if not left:
                return False
        constraint.accept(left.pop(0))
    return True


def _cut_as_forced(guide: Guide, constraint: Any, mask: Mask, left: Sequence[int]) -> list[int]:
    """``left``, the last of which ends the text, cut as ``mask`` forces it; [] if it forces nothing
    of this text.

    llguidance allows one token alone where the next bytes are certain, and cuts these bytes without
    what follows. Gemma 4 has "{}" in ":{}", but ":{" and "}}" in ":{}}".
    """
    *tokens, end = left
    allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
    if len(allowed) != 1 or constraint.forced()[:1] != allowed:
        return []
    whole, first = (b"".join(guide.tokens[t] for t in each) for each in (tokens, allowed))
    if constraint.n_valid(tokens) < len(tokens) or not whole.startswith(first):
        return []
    return [*allowed, *guide.ids_of(whole[len(first):].decode()), end]


def drawn(guide: Guide, language: Language, rng: random.Random, ends: Sequence[str]) -> str | None:
    """A random text of ``language``; None if it doesn't end soon. Every few tokens one of ``ends``
    is tried, since random tokens seldom write a tag."""
    constraint: Any = language.make(guide)()
    out = np.zeros(n_words(max(len(guide.tokens), *guide.ends) + 1), np.uint32)
    closing = [guide.ids_of(text) for text in ends]
    written: list[int] = []
    while len(written) < 600:
        tried = rng.sample(closing, len(closing)) if rng.random() < 0.3 + len(written) / 300 else []
        found = next((ids for ids in tried if constraint.n_valid(ids) == len(ids)), None)
        if found is None:
            out[:] = 0
            constraint.mask(out)
            allowed = np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little"))
            assert len(allowed), written
            over = [t for t in guide.ends if t in allowed]
            found = over[:1] if over and rng.random() < 0.5 else [
                int(allowed[rng.randrange(len(allowed))])]
        for token in found:
            constraint.accept(token)
        if found[-1] in guide.ends:
            return b"".join(guide.tokens[t] for t in written).decode()
        written += found
    return None


def language(form: AnswerForm, tool: Any) -> tuple[Any, tuple[str, ...]]:
    """(the language of an answer that has to call ``tool``, what its arguments aren't held to)."""
    return language_of_answer(form, form.prompt_end, None, [tool], "required", ReasoningBudget())


def check_what_passes(guide: Guide, form: AnswerForm, rng: random.Random, ends: Sequence[str]
                      ) -> None:
    """Draw texts with calls of random tools, as :func:`drawn` does with ``ends``, until four calls
    are read. Each must be complete and, unless a note says otherwise, fit the tool's schema."""
    jsonschema = pytest.importorskip("jsonschema")
    n_read = n_drawn = 0
    while n_read < 4:
        tool = tool_of(rng)
        root = tool["function"]["parameters"]
        made, notes = language(form, tool)
        text = drawn(guide, made, rng, ends)
        n_drawn += 1
        assert n_drawn < 100, "random texts don't end"
        if text is None:
            continue
        message = parse_answer(text, form, [tool], prompt=form.prompt_end)
        assert len(message.tool_calls) >= 1, shown(root, message.notes, text)
        for call in message.tool_calls:
            assert call.is_complete, shown(root, None, text)
            values = json.loads(call.arguments)
            n_read += 1
            if not notes:
                try:
                    jsonschema.validate(values, root)
                except jsonschema.ValidationError as error:
                    raise AssertionError(shown(root, values, text)) from error


def shown(schema: Any, values: Any, text: str | None) -> str:
    """What a failure has to tell."""
    return f"{json.dumps(schema)}\n{json.dumps(values)}\n{text!r}"
