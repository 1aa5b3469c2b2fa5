"""Values that a tag dialect writes as raw text become JSON, typed by the tool's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unladen.chat.json_text import JSON, PYTHON, as_json, quoted
from unladen.chat.marks import WHITE

MAX_HOPS = 16
"""Schemas inside schemas (anyOf, allOf, $ref) that are looked at for a value's type."""
NULL = "null"
"""The type of JSON's null, and its text."""
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": NULL}
"""The type of a JSON text by its first character; others are numbers."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that were offered: name -> JSON schema of the arguments."""

    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.schemas

    def types(self, tool: str, key: str) -> frozenset[str]:
        """The JSON types that argument ``key`` of ``tool`` may have; none if that isn't known."""
        root = schema = self.schemas.get(tool, {})
        for _ in range(MAX_HOPS):
            if isinstance(ref := schema.get("$ref"), str):
                target = referred(ref, root)
                schema = target if isinstance(target, Mapping) else {}
        properties = schema.get("properties")
        inner = properties.get(key) if isinstance(properties, Mapping) else None
        if inner is None:
            inner = schema.get("additionalProperties")
        return frozenset(_types(inner, root, MAX_HOPS))


def tools_of(tools: Iterable[Any] | None) -> Tools:
    """The schemas in a list of tools as OpenAI's or Anthropic's clients write it; what has another
    form is left out."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for tool in tools or ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(name, str):
            schema = inner.get("parameters") or inner.get("input_schema")
            schemas[name] = schema if isinstance(schema, Mapping) else {}
    return Tools(schemas)


def _types(schema: Any, root: Mapping[str, Any], hops: int) -> set[str]:
    if not isinstance(schema, Mapping) or hops <= 0:
        return set()
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, Sequence):
        return {k for k in kind if isinstance(k, str)}
    if isinstance(enum := schema.get("enum", [schema["const"]] if "const" in schema else None),
                  Sequence) and not isinstance(enum, str):
        return {kind_of(value) for value in enum}
    if isinstance(ref := schema.get("$ref"), str):
        return _types(referred(ref, root), root, hops - 1)
    found: set[str] = set()
    for word in ("anyOf", "oneOf", "allOf"):
        inner = schema.get(word)
        for i, part in enumerate(inner if isinstance(inner, Sequence) else ()):
            found |= _types(part, root, (hops - 1) // 2 if i < MAX_HOPS else 0)
    return found or ({"object"} if "properties" in schema else set())


def referred(ref: str, root: Mapping[str, Any]) -> Any:
    """What ``ref`` points to in ``root``, such as ``#/$defs/x``; None where nothing is there."""
    at: Any = root
    path = ref.removeprefix("#").strip("/")
    for step in path.split("/") if path else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping):
            at = at.get(name)
        else:
            is_index = isinstance(at, list) and name.isdecimal() and int(name) < len(at)
            at = at[int(name)] if is_index else None
    return at


def kind_of(value: Any) -> str:
    """The type of a JSON ``value``; a float is a "number", also a whole one."""
    if value is None or isinstance(value, bool):
        return NULL if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) else "number"
    return ("string" if isinstance(value, str) else
            "object" if isinstance(value, Mapping) else "array")


def typed(raw: str, types: frozenset[str]) -> str:
    """The JSON text of the value that a model wrote as ``raw``, which is a string where nothing
    in ``types`` fits another reading."""
    as_string = f'"{quoted(raw)}"'
    if types == {"string"}:
        return as_string
    text = raw.strip(WHITE)
    if "boolean" in types and text.lower() in ("true", "false"):
        return text.lower()
    if NULL in types and text.lower() in (NULL, "none"):
        return NULL
    value = as_json(text, JSON) or as_json(text, PYTHON)
    if value is None:
        return as_string
    kind = _KINDS.get(value[0], "number")
    fits = not types or kind in types or (
        kind == "number" and "integer" in types and float(value).is_integer())
    if kind == "string":
        # Quotes are part of a raw string, unless the type is another one.
        return as_string if not types or "string" in types else value
    return value if fits or "string" not in types else as_string
