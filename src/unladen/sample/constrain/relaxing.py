"""Schemas that are held as far as they can be: keywords that can't be compiled are left out."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, Final

from unladen.errors import UnsupportedSchema
from unladen.sample.constrain.schema import OPTIONS, check, unsupported

MAX_LEFT_OUT: Final = 64
"""Keywords that are left out of one schema at most, each after a trial. A schema with more of them
is left out as a whole."""
N_KEPT: Final = 256
"""Schemas of which the result is kept. Clients send the same tools with every request, and a trial
of a usual schema takes about a millisecond."""
MAX_KEPT_CHARS: Final = 1 << 16
"""Characters of a schema of which the result is kept."""


def relaxed(schema: Any) -> tuple[Any, list[str]]:
    """(``schema``, plain JSON values, without the keywords that can't be compiled; those keywords
    with their places, as "format at #/properties/when").

    Where no keyword is to blame, the schema is one of any object, and the list has the reason.
    Raises :class:`~unladen.errors.InvalidArgument` for a schema that is too large.
    """
    text = json.dumps(schema)
    found, left_out = (_relaxed if len(text) <= MAX_KEPT_CHARS else _relaxed.__wrapped__)(text)
    return json.loads(found), [*left_out]


@functools.lru_cache(maxsize=N_KEPT)
def _relaxed(text: str) -> tuple[str, tuple[str, ...]]:
    """As :func:`relaxed`, for JSON texts."""
    schema, left_out = _tried(json.loads(text))
    return json.dumps(schema), tuple(left_out)


def _tried(schema: Any) -> tuple[Any, list[str]]:
    left_out: list[str] = []
    for _ in range(MAX_LEFT_OUT):
        wrong = _wrong(schema)
        if wrong is None:
            return schema, left_out
        if not (wrong.keyword and wrong.place):
            return {"type": "object"}, [wrong.message]
        schema = _without(schema, [*_keys(wrong.place)], wrong.keyword)
        left_out.append(f"{wrong.keyword} at {wrong.place}")
    return {"type": "object"}, [f"more than {MAX_LEFT_OUT} of its keywords can't be compiled"]


def _wrong(schema: Any) -> UnsupportedSchema | None:
    """Why ``schema`` can't be compiled; None where it can."""
    from llguidance import LLMatcher
    try:
        check(schema)
    except UnsupportedSchema as error:
        return error
    grammar = {"grammars": [{"json_schema": {
        **({} if schema is True else schema), "x-guidance": dict(OPTIONS)}}]}
    message = LLMatcher.validate_grammar(json.dumps(grammar))
    return unsupported(schema, message) if message else None


def _keys(place: str) -> Iterator[str]:
    """The keys that the JSON pointer ``place`` names."""
    for part in place.split("/")[1:]:
        yield part.replace("~1", "/").replace("~0", "~")


def _without(value: Any, keys: list[str], keyword: str) -> Any:
    """A copy of ``value`` without ``keyword`` in the object to which ``keys`` lead."""
    if not keys:
        return {name: each for name, each in value.items() if name != keyword}
    first, *rest = keys
    if isinstance(value, list):
        at = int(first)
        return [*value[:at], _without(value[at], rest, keyword), *value[at + 1:]]
    return {**value, first: _without(value[first], rest, keyword)}
