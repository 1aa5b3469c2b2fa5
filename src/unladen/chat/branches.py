"""Takes the schema of an argument apart into the simple schemas that a value may fit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unladen.chat.values import MAX_HOPS, kind_of, referred

Schema = Mapping[str, Any]

MAX_BRANCHES = 64
"""Simple schemas that one schema is taken apart into."""
MAX_STEPS = 1000
"""Schemas that are looked at for that: a hostile one could name others without end."""
MAX_COUNT = 10_000
"""The longest string or list that a length may ask for."""
_ANNOTATIONS = frozenset(["title", "description", "default", "examples", "deprecated", "readOnly",
                          "writeOnly", "$comment", "$schema", "$id", "$defs", "definitions"])
"""Keywords that no value depends on."""
_ROOT = "tool"
"""The name of a tool's own schema where that stands in another one."""


class Inexpressible(Exception):
    """A schema can't be written in a dialect's way; the text says why."""


def branches(schema: Any, root: Schema) -> list[Schema]:
    """The simple schemas of which ``schema`` is a choice: each has one type, or none, and no
    ``$ref``, ``anyOf`` or ``oneOf`` of its own. Those of texts come with ``enum`` in place of
    ``const``. ``root``: the schema that ``$ref`` points into. Raises :class:`Inexpressible`."""
    found = list(itertools.islice(_split(schema, root, MAX_HOPS, itertools.count()),
                                  MAX_BRANCHES + 1))
    if len(found) > MAX_BRANCHES:
        raise Inexpressible("its schema has too many alternatives")
    if not found:
        raise Inexpressible("no value fits its schema")
    return found


def _split(schema: Any, root: Schema, hops: int, steps: Iterator[int]) -> Iterator[Schema]:
    if hops <= 0 or next(steps) > MAX_STEPS:
        raise Inexpressible("its schema is nested too deeply")
    if schema is True:
        schema = {}
    if schema is False:
        return
    if not isinstance(schema, Mapping):
        raise Inexpressible("its schema isn't an object")
    own = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    if isinstance(ref := own.pop("$ref", None), str):
        target = referred(ref, root)
        if target is None:
            raise Inexpressible(f"nothing is at {ref[:80]!r}")
        yield from _split(joined(own, target), root, hops - 1, steps)
        return
    for word in ("allOf", "anyOf", "oneOf"):
        parts = own.pop(word, None)
        if parts is None:
            continue
        if not isinstance(parts, Sequence) or len(parts) > MAX_BRANCHES:
            raise Inexpressible(f"its {word} is too long")
        if word == "allOf":
            for part in parts:
                own = {**joined(own, part)}
            yield from _split(own, root, hops - 1, steps)
        else:
            for part in parts:
                yield from _split(joined(own, part), root, hops - 1, steps)
        return
    yield from _typed(own)


def _typed(own: dict[str, Any]) -> Iterator[Schema]:
    if "const" in own:
        own["enum"] = [own.pop("const")]
    if not isinstance(own.get("enum", []), list):
        raise Inexpressible("its enum isn't a list")
    kinds = own.pop("type", None)
    if kinds is None:
        yield own
        return
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not all(isinstance(kind, str) for kind in kinds):
        raise Inexpressible("its type isn't the name of a type")
    for kind in kinds:
        each = {**own, "type": kind}
        if "enum" in own:
            each["enum"] = [value for value in own["enum"] if is_of(value, kind)]
            if not each["enum"]:
                continue
        yield each


def joined(one: Schema, other: Any) -> Schema:
    """The schema of values that fit both schemas. Raises :class:`Inexpressible` where both have a
    keyword with different values."""
    if other is True:
        return one
    if not isinstance(other, Mapping):
        raise Inexpressible("its schema isn't an object")
    added = {key: value for key, value in other.items() if key not in _ANNOTATIONS}
    twice = [key for key in added if key in one and one[key] != added[key]]
    if twice:
        raise Inexpressible(f"its schema has {twice[0]} at two levels")
    return {**one, **added}


def bounds(part: Schema, least: str, most: str) -> tuple[int, int | None]:
    """The values of the keywords ``least`` and ``most``. Raises :class:`Inexpressible`."""
    low: Any = part.get(least, 0)
    high: Any = part.get(most)
    for word, value in ((least, low), (most, high)):
        if word in part and not (kind_of(value) == "integer" and 0 <= value <= MAX_COUNT):
            raise Inexpressible(f"its {word} isn't a whole number up to {MAX_COUNT}")
    if high is not None and high < low:
        raise Inexpressible(f"its {most} is below its {least}")
    return low, high


def members(part: Schema) -> tuple[dict[str, Any], list[str]]:
    """(the properties of an object, the names that are required). Raises
    :class:`Inexpressible`."""
    properties, required = part.get("properties", {}), part.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list) or not all(
            isinstance(key, str) for key in required):
        raise Inexpressible("its properties or required names aren't what a schema has")
    missing = [key for key in required if key not in properties]
    if missing:
        raise Inexpressible(f"{missing[0][:40]!r} is required and has no schema")
    return properties, required


def is_of(value: Any, kind: str) -> bool:
    """Whether a JSON ``value`` has the type ``kind``."""
    own = kind_of(value)
    if own == "number":
        return kind == "number" or (kind == "integer" and value.is_integer())
    return kind == own or (kind == "number" and own == "integer")


def rooted(schema: Any, root: Schema) -> Any:
    """``schema``, a part of ``root``, as a schema that stands alone."""
    if '"$ref"' not in json.dumps(schema):
        return schema
    return {**_moved(schema), "$defs": {_ROOT: {
        key: value for key, value in _moved(root).items() if key != "$id"}}}


def _moved(schema: Any) -> Any:
    """``schema`` with references to a root that stands under another name."""
    if isinstance(schema, list):
        return [_moved(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: (f"#/$defs/{_ROOT}{value[1:]}" if key == "$ref" and isinstance(value, str)
                  and value.startswith("#") else
                  value if key in ("enum", "const", "default", "examples") else
                  {name: _moved(part) for name, part in value.items()}
                  if key in _MAPS and isinstance(value, Mapping) else _moved(value))
            for key, value in schema.items()}


_MAPS = frozenset(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"])
"""Keywords whose value names schemas as the caller likes, also ``$ref``."""
