"""Python types as schemas, and answers read back into their values."""

from __future__ import annotations

import datetime
import enum
import json
import sys
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Required, TypedDict

import pytest

from sample.constrain.conftest import Fits
from unladen.errors import InvalidArgument
from unladen.sample.constrain.form import language_of
from unladen.sample.constrain.python_types import read, schema_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Point(NamedTuple):
    x: int
    label: str = "p"


class Choices(TypedDict, total=False):
    depth: Required[int]
    name: str


@dataclass
class Person:
    name: str
    age: int = 3
    friends: list[Person] = field(default_factory=list)
    color: Color | None = None


@dataclass
class Everything:
    number: float
    flag: bool
    level: Level
    point: Point
    options: Choices
    pair: tuple[int, str]
    many: tuple[bool, ...]
    table: dict[str, int]
    choice: Literal["a", 1, None]
    union: int | list[str]
    maybe: Color | None
    noted: Annotated[str, "a note"]
    day: datetime.date
    key: uuid.UUID
    anything: Any


WHOLE = {"number": 2, "flag": True, "level": 0, "point": {"x": 1}, "options": {"depth": 2},
         "pair": [1, "x"], "many": [True, False], "table": {"k": 1}, "choice": None,
         "union": ["s"], "maybe": "blue", "noted": "n", "day": "2026-01-15",
         "key": "12345678-1234-5678-1234-567812345678", "anything": [1, None]}


@pytest.mark.parametrize(("kind", "value", "expected"), [
    (int, 5, 5), (float, 5, 5.0), (str, "a", "a"), (bool, True, True), (None, None, None),
    (list[int], [1, 2], [1, 2]), (dict[str, float], {"a": 1}, {"a": 1.0}),
    (int | str, "a", "a"), (int | None, None, None), (Literal["a", "b"], "b", "b"),
    (Literal[Color.RED], "red", Color.RED), (Color, "blue", Color.BLUE), (Level, 0, Level.LOW),
    (Point, {"x": 2}, Point(2)), (Annotated[Point, "a note"], {"x": 2}, Point(2)),
    (Choices, {"depth": 1, "name": "n"}, {"depth": 1, "name": "n"}),
    (tuple[int, bool], [1, True], (1, True)), (tuple[int, ...], [], ()),
    (Person, {"name": "A", "age": 4, "friends": [{"name": "B"}], "color": "red"},
     Person("A", 4, [Person("B")], Color.RED)),
    (Everything, WHOLE, Everything(
        2.0, True, Level.LOW, Point(1), {"depth": 2}, (1, "x"), (True, False), {"k": 1}, None,
        ["s"], Color.BLUE, "n", datetime.date(2026, 1, 15),
        uuid.UUID("12345678-1234-5678-1234-567812345678"), [1, None]))])
def test_there_and_back(fits: Fits, kind: Any, value: Any, expected: Any) -> None:
    language = language_of(kind) if kind is not None else language_of(type(None))
    assert language is not None
    text = json.dumps(value)
    assert fits(language, text)
    found = language.read(text)
    assert found == expected and type(found) is type(expected)


def test_a_schema() -> None:
    schema = schema_of(Person)
    assert schema["$ref"] == "#/$defs/Person"
    person = schema["$defs"]["Person"]
    assert list(person["properties"]) == ["name", "age", "friends", "color"]
    assert person["required"] == ["name"] and person["additionalProperties"] is False
    assert person["properties"]["friends"]["items"] == {"$ref": "#/$defs/Person"}
    assert schema_of(Annotated[list[Color | None], "colors"]) == {
        "type": "array", "description": "colors", "items": {"anyOf": [
            {"type": "string", "enum": ["red", "blue"]}, {"type": "null"}]}}
    assert schema_of(int | None) == {"type": ["integer", "null"]}


@pytest.mark.parametrize(("kind", "value"), [
    (int, "5"), (int, True), (bool, 1), (str, None), (Color, "green"), (Literal[1], True),
    (Person, {"age": 1}), (Person, {"name": "a", "x": 1}), (Person, []), (tuple[int, int], [1]),
    (list[int], {"a": 1}), (datetime.date, "yesterday"), (int | None, "a")])
def test_values_that_are_none(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - from many places, a truncated answer's too
        read(kind, value)


def test_fits_no_other(fits: Fits) -> None:
    language = language_of(Person)
    assert language is not None
    for value in ({"age": 1}, {"name": 5}, {"name": "a", "color": "green"}, [],
                  {"name": "a", "b": 1}):
        assert not fits(language, json.dumps(value))


def test_pydantic(fits: Fits) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", n=(int, ...), s=(list[str], []))

    @dataclass
    class Holder:
        inner: Any
    Holder.__annotations__["inner"] = model
    for kind, value in ((model, {"n": 1, "s": ["a"]}), (list[model], [{"n": 2}])):
        language = language_of(kind)
        assert language is not None and fits(language, json.dumps(value))
        assert not fits(language, '{"n": "x"}')
        found = language.read(json.dumps(value))
        assert (found if kind is model else found[0]).n in (1, 2)


@dataclass
class Unresolved:
    x: NoSuchName  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("kind", [set[int], complex, dict[int, str], bytes, list[complex],
                                  Literal[b"a"], Unresolved, type(sys)])
def test_types_without_a_schema(kind: Any) -> None:
    with pytest.raises(InvalidArgument):
        language_of(kind)
