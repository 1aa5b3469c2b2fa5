"""Malformed schemas of arguments: a note names what is wrong, and no error ends the request."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from chat.answers import form_in
from chat.argued import language
from unladen.chat.branches import Inexpressible, bounds, branches, is_of, members

pytest.importorskip("llguidance")

VALUES = (5, None, True, -1, 1.5, 10 ** 400, "x", "string", "#", "#/$defs/x", ["string"], [5], [[]],
          {}, [], ["string", ["x"]], {"a": 1}, "(", [{}], [5, "a", None, 10 ** 400])
"""Values that a keyword may have in a malformed schema."""
KEYWORDS = ("type", "enum", "const", "properties", "required", "additionalProperties", "anyOf",
            "allOf", "oneOf", "$ref", "items", "minLength", "maxLength", "pattern", "minItems",
            "maxItems", "minimum", "format")


@pytest.mark.parametrize(("schema", "says"), [
    ({"type": 5}, "its type"), ({"type": ["string", []]}, "its type"), ({"enum": 5}, "its enum"),
    ({"enum": {"a": 1}}, "its enum"), ({"anyOf": 5}, "its anyOf"), ({"anyOf": "x"}, "an object")])
def test_malformed_schemas(schema: Any, says: str) -> None:
    with pytest.raises(Inexpressible, match=says):
        branches(schema, schema)


def test_malformed_members_and_bounds() -> None:
    for required in ([[]], [{}], [5], "a"):
        with pytest.raises(Inexpressible, match="required names"):
            members({"required": required})
    for value in (None, True, -1, 1.5, "1", 10 ** 400):
        for word in ("minItems", "maxItems"):
            with pytest.raises(Inexpressible, match=word):
                bounds({word: value}, "minItems", "maxItems")


def test_types_of_numbers() -> None:
    for value, kinds in ((10 ** 400, {"integer", "number"}), (2.0, {"integer", "number"}),
                         (1.5, {"number"}), (1e999, {"number"}), (True, {"boolean"})):
        assert {kind for kind in ("integer", "number", "boolean", "string", "null")
                if is_of(value, kind)} == kinds


@pytest.mark.parametrize("name", ["Qwen3-Coder", "MiniMax-M2", "LFM2.5-Instruct",
                                  "google-gemma-4-31B-it"])
def test_a_malformed_schema_leaves_a_language(shared: Path, seed: int, name: str) -> None:
    rng, form = random.Random(f"{seed} {name}"), form_in(shared, name)

    def malformed(depth: int) -> Any:
        if not depth or rng.random() < 0.4:
            return rng.choice(VALUES)
        return {word: malformed(depth - 1) for word in rng.sample(KEYWORDS, rng.randrange(4))}
    for _ in range(300):
        tool = {"type": "function", "function": {"name": "f", "parameters": {
            "type": "object", "properties": {"a": malformed(3), "b": malformed(1)}}}}
        made, _ = language(form, tool)
        assert made is not None, tool
