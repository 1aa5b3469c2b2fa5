"""Python types as JSON schemas, and parsed JSON back into their values.

Dataclasses, TypedDicts, named tuples and pydantic models are objects with a property for each
field; a field with a default may be left out.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import shown
from unladen.sample.constrain.schema import JsonSchema

_PLAIN: Final[Mapping[object, Mapping[str, Any]]] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"},
    bool: {"type": "boolean"}, type(None): {"type": "null"}, None: {"type": "null"}, Any: {},
    object: {}, datetime.date: {"type": "string", "format": "date"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"}}
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_ISO = (datetime.datetime, datetime.date, datetime.time)


def language_of_type(kind: Any) -> JsonSchema:
    """The JSON texts for values of the type ``kind``; ``read`` returns such a value. Raises
    :class:`InvalidArgument` for a type that JSON can't hold."""
    if _is_pydantic(kind):
        return JsonSchema(kind.model_json_schema(), kind.model_validate)
    return JsonSchema(schema_of(kind), lambda value: read(kind, value))


def is_type(value: object) -> bool:
    """Whether ``value`` is a type or an annotation such as ``list[int]``."""
    return isinstance(value, type | types.UnionType) or typing.get_origin(value) is not None


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type; raises :class:`InvalidArgument`."""
    schemas = Schemas()
    return schemas.with_classes(schemas.of(kind, "the type"))


class Schemas:
    """The JSON schemas of types that stand in one schema. A class has its own, to which others
    refer by name, so that it may have fields of its own type."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def with_classes(self, schema: dict[str, Any]) -> dict[str, Any]:
        """``schema``, in which types stand, with the classes to which these refer."""
        return {**schema, "$defs": self._made} if self._made else schema

    def of(self, kind: Any, where: str) -> dict[str, Any]:
        """The schema of the type ``kind``. ``where`` names it in errors. Raises
        :class:`InvalidArgument`."""
        if _is_plain(kind):
            return dict(_PLAIN[kind])
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired):
            note = next((each for each in arguments[1:] if isinstance(each, str)), None)
            return self.of(arguments[0], where) | ({"description": note} if note else {})
        if origin is typing.Literal:
            return _one_of([_json_of(value, where) for value in arguments])
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, where)
        if kind in _LISTS or origin in _LISTS:
            items = self.of(arguments[0] if arguments else Any, where)
            return {"type": "array"} | ({"items": items} if items else {})
        if kind is tuple or origin is tuple:
            return self._tuple(arguments, where)
        if kind in _DICTS or origin in _DICTS:
            key, value = arguments or (str, Any)
            if key is not str:
                raise _unknown(kind, f"the keys of {where}")
            values = self.of(value, where)
            return {"type": "object"} | ({"additionalProperties": values} if values else {})
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _one_of([_json_of(member.value, f"{kind.__name__}.{member.name}")
                            for member in kind])
        if _is_pydantic(kind) or _fields(kind) is not None:
            return self._reference(kind)
        raise _unknown(kind, where)

    def _union(self, arguments: tuple[Any, ...], where: str) -> dict[str, Any]:
        several = [self.of(each, where) for each in arguments]
        if all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema in several):
            return {"type": [schema["type"] for schema in several]}
        return {"anyOf": several}

    def _tuple(self, arguments: tuple[Any, ...], where: str) -> dict[str, Any]:
        if not arguments:
            return {"type": "array"}
        if len(arguments) == 2 and arguments[1] is ...:
            return {"type": "array", "items": self.of(arguments[0], where)}
        return {"type": "array", "prefixItems": [self.of(each, where) for each in arguments],
                "items": False, "minItems": len(arguments)}

    def _reference(self, kind: Any) -> dict[str, Any]:
        name = self._names.get(kind)
        if name is None:
            name = f"{kind.__name__}{len(self._names) or ''}"
            self._names[kind] = name
            self._made[name] = {}
            self._made[name] = self._object(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, kind: Any) -> dict[str, Any]:
        if _is_pydantic(kind):
            name = self._names[kind]
            schema: dict[str, Any] = kind.model_json_schema(
                ref_template=f"#/$defs/{name}/$defs/{{model}}")
            return schema
        fields = _fields(kind) or {}
        return {"type": "object", "properties": {
                    name: self.of(each, f"{kind.__name__}.{name}")
                    for name, (each, _) in fields.items()},
                "required": [name for name, (_, is_required) in fields.items() if is_required],
                "additionalProperties": False}


def read(kind: Any, value: Any) -> Any:
    """The value of the type ``kind`` that the parsed JSON ``value`` stands for. Raises
    :class:`ValueError` where it stands for none."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return read(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        return _first(arguments, value)
    if origin is typing.Literal:
        return next(each for each in _checked(arguments, value, kind)
                    if _same(each.value if isinstance(each, enum.Enum) else each, value))
    if _is_plain(kind):
        return _read_plain(kind, value)
    if _is_pydantic(kind):
        return kind.model_validate(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = [member for member in kind if _same(member.value, value)]
        return members[0] if members else _refuse(kind, value)
    if kind in _LISTS or origin in _LISTS:
        _expect(kind, value, list)
        return [read(arguments[0] if arguments else Any, each) for each in value]
    if kind is tuple or origin is tuple:
        return _read_tuple(arguments, value)
    if kind in _DICTS or origin in _DICTS:
        _expect(kind, value, dict)
        inner = arguments[1] if arguments else Any
        return {key: read(inner, each) for key, each in value.items()}
    return _read_object(kind, value)


def _read_plain(kind: Any, value: Any) -> Any:
    if kind is Any or kind is object:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if kind in _ISO or kind is uuid.UUID:
        _expect(kind, value, str)
        make: Callable[[str], Any] = uuid.UUID if kind is uuid.UUID else kind.fromisoformat
        return make(value)
    wanted = type(None) if kind is None else kind
    if type(value) is not wanted:
        _refuse(kind, value)
    return value


def _read_tuple(arguments: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    _expect(tuple, value, list)
    if not arguments or arguments[-1] is ...:
        return tuple(read(arguments[0] if arguments else Any, each) for each in value)
    return tuple(read(kind, each) for kind, each in zip(arguments, value, strict=True))


def _read_object(kind: Any, value: Any) -> Any:
    _expect(kind, value, dict)
    fields = _fields(kind) or {}
    given = {name: read(fields[name][0], each) for name, each in value.items() if name in fields}
    if len(given) < len(value) or any(
            is_required and name not in given for name, (_, is_required) in fields.items()):
        _refuse(kind, value)
    return kind(**given)


def _first(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return read(kind, value)
        except (ValueError, TypeError, KeyError):
            continue
    return _refuse(typing.Union, value)


def _fields(kind: Any) -> Mapping[str, tuple[Any, bool]] | None:
    """The type of each field of a class, and whether it must be given; None for other types."""
    if not isinstance(kind, type):
        return None
    cls: Any = kind
    if dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return {field.name: (hints[field.name],
                             field.default is dataclasses.MISSING
                             and field.default_factory is dataclasses.MISSING)
                for field in dataclasses.fields(kind) if field.init}
    if typing.is_typeddict(kind):
        required: frozenset[str] = cls.__required_keys__
        return {name: (each, name in required) for name, each in _hints(kind).items()}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = _hints(kind)
        defaults: Mapping[str, Any] = cls._field_defaults
        return {name: (hints.get(name, Any), name not in defaults) for name in cls._fields}
    return None


def _hints(kind: type) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise InvalidArgument(f"the types of {kind.__name__}'s fields aren't known: {error}",
                              hint="define the class and its types at a module's top level"
                              ) from None


def _is_pydantic(kind: Any) -> bool:
    return isinstance(kind, type) and callable(getattr(kind, "model_json_schema", None))


def _is_plain(kind: Any) -> bool:
    try:
        return kind in _PLAIN
    except TypeError:  # a type that can't be hashed
        return False


def _json_of(value: Any, where: str) -> Any:
    if isinstance(value, enum.Enum):
        return _json_of(value.value, where)
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise InvalidArgument(f"{where} has the value {shown(value)}, which JSON can't hold",
                          hint="use a str, a number, a bool or None")


def _one_of(values: list[Any]) -> dict[str, Any]:
    """The schema of these values, with their type where they have one in common."""
    kinds = {type(value) for value in values}
    return (dict(_PLAIN[kinds.pop()]) if len(kinds) == 1 else {}) | {"enum": values}


def _checked(values: tuple[Any, ...], value: Any, kind: Any) -> tuple[Any, ...]:
    if not any(_same(each.value if isinstance(each, enum.Enum) else each, value)
               for each in values):
        _refuse(kind, value)
    return values


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _expect(kind: Any, value: Any, wanted: type) -> None:
    if type(value) is not wanted:
        _refuse(kind, value)


def _refuse(kind: Any, value: Any) -> Any:
    raise ValueError(f"{shown(value)} isn't a value of {getattr(kind, '__name__', kind)}")


def _unknown(kind: Any, where: str) -> InvalidArgument:
    return InvalidArgument(
        f"{where} is of type {getattr(kind, '__name__', None) or shown(kind)}, which has no JSON "
        "schema", hint="use str, int, float, bool, None, list, tuple, dict, Literal, an Enum, a "
                       "dataclass, a TypedDict or a pydantic model")
