"""JSON schemas, and errors that name the keyword that can't be compiled and where it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from unladen.errors import InvalidArgument, UnsupportedSchema
from unladen.parameters.kinds import shown
from unladen.sample.constrain.language import Grammars, Language

OPTIONS: Final[Mapping[str, Any]] = {
    "whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ",
    "lenient": False, "coerce_one_of": False}
"""How texts are written: on one line, as most JSON is. With free white space a model may write
blanks without end, and no text is ever forced."""

MAX_DEPTH = 120
"""JSON values within one another that are taken: llguidance reads 128, a few of which are ours."""
MAX_SCHEMAS = 100_000
"""Schemas in a schema that are taken, so that a hostile one can't keep a caller busy for long."""

_ONE = frozenset(["additionalItems", "additionalProperties", "contains", "contentSchema", "else",
                  "if", "items", "not", "propertyNames", "then", "unevaluatedItems",
                  "unevaluatedProperties"])
_LIST = frozenset(["allOf", "anyOf", "items", "oneOf", "prefixItems"])
_MAP = frozenset(["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"])
"""Keywords whose value is a schema, a list of schemas, a mapping to schemas."""

Schema = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class JsonSchema(Language):
    """JSON texts that a schema describes, with properties in the order of the schema. ``convert``
    turns a parsed value into what :meth:`read` returns. Raises :class:`InvalidArgument`."""

    schema: Any
    convert: Callable[[Any], Any] | None = None
    _plain: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_plain", plain(self.schema))

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """The schema, with options of ours in place of those that it may bring."""
        check(self._plain)
        schema = {} if self._plain is True else with_real_dates(self._plain)
        return {"json_schema": {**schema, "x-guidance": OPTIONS}}

    @property
    def must_be_whole(self) -> bool:
        """JSON that breaks off can't be read."""
        return True

    def read(self, text: str) -> Any:
        """The value of a JSON text, converted."""
        value = json.loads(text)
        return value if self.convert is None else self.convert(value)

    def blamed(self, message: str) -> InvalidArgument:
        """Names the keyword that ``message`` is about and its place."""
        return unsupported(self._plain, message)


def plain(schema: object) -> Any:
    """``schema``, a mapping, a bool or their JSON text, as plain JSON values. Raises
    :class:`InvalidArgument`."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(
            dict(schema) if isinstance(schema, Mapping) else schema, allow_nan=False)
        made = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        reason = ("it is nested too deeply" if isinstance(error, RecursionError) else str(error))
        raise InvalidArgument(f"the JSON schema isn't JSON: {reason}",
                              hint='for example {"type": "object"}') from None
    if _is_deep(made):
        raise InvalidArgument(f"the JSON schema is nested too deeply: more than {MAX_DEPTH} levels",
                              hint="$ref names a schema that stands elsewhere")
    if not isinstance(made, dict | bool):
        raise InvalidArgument(f"a JSON schema must be an object, got {shown(made)}",
                              hint='for example {"type": "object"}')
    return made


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [part for each in level if isinstance(each, dict | list)
                 for part in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return False
    return True


def subschemas(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in ``schema`` that is an object, with its place as a JSON pointer: "#/items".
    Raises :class:`InvalidArgument` where they are too many."""
    todo: list[tuple[str, Any]] = [("#", schema)]
    n = 0
    while todo:
        place, each = todo.pop()
        if not isinstance(each, dict):
            continue
        n += 1
        if n > MAX_SCHEMAS:
            raise InvalidArgument(f"the JSON schema has more than {MAX_SCHEMAS} schemas in it",
                                  hint="make it smaller; $ref names a schema that is used again")
        yield place, each
        inner = [(f"{place}/{_escaped(path)}", part) for path, part in _parts(each)]
        todo += reversed(inner)


def _parts(schema: Schema) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in schema.items():
        if key in _LIST and isinstance(value, list):
            yield from (((key, str(i)), part) for i, part in enumerate(value))
        elif key in _ONE:
            yield (key,), value
        elif key in _MAP and isinstance(value, dict):
            yield from (((key, name), part) for name, part in value.items())


def _escaped(path: tuple[str, ...]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def check(schema: Any) -> None:
    """Raise :class:`UnsupportedSchema` for what llguidance would take and not hold to."""
    if schema is False:
        raise UnsupportedSchema("the JSON schema is false, so no text fits it", place="#",
                                hint="true lets any JSON pass")
    for place, each in subschemas(schema):
        least = each.get("minProperties")
        if isinstance(least, int) and least > len(each.get("required", ())) + 1:
            raise UnsupportedSchema(
                "the JSON schema can't be compiled: minProperties counts further properties, whose "
                "names could repeat", keyword="minProperties", place=place,
                hint="list names in properties and in required")


_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = ("(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])"
              "|(?:0[48]|[2468][048]|[13579][26])00)")
_DATE = (f"(?:{_LEAP_YEAR}-02-29|{_YEAR}-"
         "(?:(?:0[13-9]|1[0-2])-[0-9]{2}|02-(?:[01][0-9]|2[0-8])))")
_TIME = "[0-9]{2}:[0-9]{2}:[0-5]"
_REAL: Final = {"date": f"^{_DATE}", "date-time": f"^{_DATE}[Tt ]{_TIME}", "time": f"^{_TIME}"}
"""What texts of a format begin with that are dates of the calendar: llguidance takes a 29th of
February in every year, a year 0, and leap seconds at any time, which most programs can't read."""


def with_real_dates(schema: Any) -> Any:
    """``schema``, in which dates and times are real ones."""
    if not any(_real(each) for _, each in subschemas(schema)):
        return schema
    made = json.loads(json.dumps(schema))
    for _, each in subschemas(made):
        pattern = _real(each)
        if pattern is None:
            continue
        if "pattern" not in each:
            each["pattern"] = pattern
        elif isinstance(each.setdefault("allOf", []), list):
            each["allOf"].append({"pattern": pattern})
    return made


def _real(schema: Schema) -> str | None:
    name = schema.get("format")
    return _REAL.get(name) if isinstance(name, str) else None


_TELLS: Final = (
    (re.compile(r'Unimplemented keys: \["([^"]+)"'), None),
    (re.compile(r"Unknown format: (.*)"), "format"),
    (re.compile(r"Expected .* for '([^']+)'"), None),
    (re.compile(r"Value for '([^']+)'"), None),
    (re.compile(r"Invalid type: (.*)"), "type"),
    (re.compile(r"oneOf constraints"), "oneOf"),
    (re.compile(r"anyOf is empty"), "enum"),
    (re.compile(r"min/maxProperties"), "minProperties"),
    (re.compile(r"regex parse error|invalid regex|lookaround"), "pattern"),
    (re.compile(r"^Resource |[Rr]ef\b|[Pp]ointer"), "$ref"))
"""What llguidance's messages say of the keyword: None stands for the first group."""
_SAME = {"enum": ("enum", "anyOf"), "minProperties": ("minProperties", "maxProperties"),
         "pattern": ("pattern", "patternProperties"), "$ref": ("$ref", "$dynamicRef")}
"""Keywords that share a message."""


def unsupported(schema: Any, message: str) -> UnsupportedSchema:
    """The error for ``schema``, of which llguidance says ``message``."""
    message = " ".join(message.split())
    keyword = place = ""
    hint = "leave the keyword out, and check it in the parsed value"
    for pattern, name in _TELLS:
        found = pattern.search(message)
        if found:
            keyword = name or found[1]
            place = _place(schema, keyword, found[1] if found.groups() and name else None)
            keyword, place = place.rpartition("\0")[2] or keyword, place.partition("\0")[0]
            break
    if keyword == "oneOf":
        message, hint = "several schemas of oneOf could fit", "use anyOf, or tell them by a const"
    where = f" ({keyword} at {place})" if place else f" ({keyword})" if keyword else ""
    return UnsupportedSchema(
        f"the JSON schema can't be compiled: {message}{where}", keyword=keyword, place=place,
        hint=hint)


def _place(schema: Any, keyword: str, value: str | None) -> str:
    """Where ``keyword`` stands (with this ``value``, if there is one), NUL, and its own name."""
    for place, each in subschemas(schema):
        for name in _SAME.get(keyword, (keyword,)):
            if name in each and (value is None or value in str(each[name])):
                return f"{place}\0{name}"
    return f"\0{keyword}"
