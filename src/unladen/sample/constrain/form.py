"""The form of an answer as callers give it: a schema, OpenAI's ``response_format``, a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import shown
from unladen.parameters.sampling import Form
from unladen.sample.constrain.gbnf import Gbnf
from unladen.sample.constrain.language import Language, Lark
from unladen.sample.constrain.python_types import is_type, language_of_type
from unladen.sample.constrain.regex import Regex
from unladen.sample.constrain.schema import JsonSchema


def language_of(form: object) -> Language | None:
    """The language that ``form`` describes; None for any text. Raises :class:`InvalidArgument`."""
    if form is None or isinstance(form, Language):
        return form
    if is_type(form):
        return language_of_type(form)
    if not isinstance(form, Mapping):
        Form().refuse("response_format", form)
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonSchema(form.get("schema", {"type": "object"}))
    if kind == "json_schema":
        return JsonSchema(_schema_in(form))
    return JsonSchema(form)


def _schema_in(form: Mapping[str, Any]) -> Any:
    """The schema of OpenAI's chat requests, or of its responses, where it is one level higher."""
    inner = form.get("json_schema", form)
    if not isinstance(inner, Mapping) or "schema" not in inner:
        raise InvalidArgument(
            f"response_format has no schema, got {shown(form)}",
            hint="{'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {...}}}")
    return inner["schema"]


def grammar(text: str) -> Language:
    """Answers that a GBNF grammar describes, llama.cpp's kind, from its rule ``root``: a
    ``response_format``. Raises :class:`InvalidArgument`."""
    return Gbnf(text)


def lark(text: str) -> Language:
    """Answers that a grammar in llguidance's Lark syntax describes, from its rule ``start``: a
    ``response_format``. Raises :class:`InvalidArgument`."""
    return Lark(text)


def regex(pattern: str) -> Language:
    """Answers that match all of an expression of Python's ``re``: a ``response_format``. Raises
    :class:`InvalidArgument` for look-around and other parts that have no equivalent."""
    return Regex(pattern)


def json_schema(schema: Mapping[str, Any] | bool | str) -> Language:
    """Answers in JSON that a schema describes, an object or its JSON text: a ``response_format``.
    Raises :class:`InvalidArgument`."""
    return JsonSchema(schema)
