"""Raw values of tag dialects, typed by the schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unladen.chat.values import tools_of, typed


@pytest.mark.parametrize(("raw", "schema", "value"), [
    ("01234", {"type": "string"}, "01234"), ("7", {"type": "integer"}, 7),
    ("7", {"type": "string"}, "7"), ("7", {}, 7), ("01234", {}, "01234"),
    ("True", {"type": "boolean"}, True), ("FALSE", {"type": "boolean"}, False),
    ("0.5", {"type": "number"}, 0.5), ("seven", {"type": "integer"}, "seven"),
    ("None", {"type": ["string", "null"]}, None), ("x", {"type": ["string", "null"]}, "x"),
    ("['a', {'b': True}]", {"type": "array"}, ["a", {"b": True}]),
    ('{"a": [1]}', {"type": "object"}, {"a": [1]}), ('"x"', {}, '"x"'),
    ('"x"', {"type": "array"}, "x"), ("{", {"type": "object"}, "{"),
    ("3", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3),
    ("3", {"enum": ["3", "4"]}, "3"), ("3", {"enum": [3, 4]}, 3), ("3", {"const": "3"}, "3"),
    ("3", {"$ref": "#/$defs/s"}, "3"), ("3", {"allOf": [{"$ref": "#/$defs/s"}]}, "3"),
    ("3", {"$ref": "#/$defs/loop"}, 3), ("", {"type": "string"}, ""), ("", {}, ""),
    ("[1]", {"type": "string"}, "[1]"), (" 7 ", {"type": "integer"}, 7)])
def test_a_value_is_typed(raw: str, schema: Any, value: Any) -> None:
    tools = tools_of([{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": schema},
        "$defs": {"s": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}}}}])
    assert json.loads(typed(raw, tools.types("f", "a"))) == value


@pytest.mark.parametrize("tool", [
    {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}},
    {"name": "f", "input_schema": {"properties": {"a": {"type": "string"}}}},
    {"function": {"name": "f", "parameters": {"additionalProperties": {"type": "string"}}}}])
def test_tools_of_several_clients(tool: Any) -> None:
    assert tools_of([tool]).types("f", "a") == {"string"}


@pytest.mark.parametrize("tool", [
    None, 7, {}, {"name": 7}, {"function": "f"}, {"function": {"name": ["f"]}}])
def test_what_is_no_tool_is_left_out(tool: Any) -> None:
    assert not tools_of([tool]).schemas


@pytest.mark.parametrize("schema", [
    7, {"properties": 7}, {"properties": {"a": 7}}, {"properties": {"a": {"type": 7}}},
    {"properties": {"a": {"anyOf": 7, "enum": "x", "$ref": "#/a/b"}}}])
def test_a_strange_schema_says_nothing(schema: Any) -> None:
    tools = tools_of([{"name": "f", "parameters": schema}])
    assert typed("7", tools.types("f", "a")) == "7"
