"""Functions become tools: the JSON schemas of their parameters."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from unladen.chat.functions import read_tools, schema_of
from unladen.errors import InvalidArgument


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


def weather(city: str, unit: Unit = Unit.CELSIUS, days: int | None = None, *,
            places: list[str], exact: bool = False) -> str:
    """Tell the weather
    of a place.

    It looks out of the window.

    Args:
        city: The name of the city:
            with its country.
        days (int): Days from now.

    Returns:
        text: What the sky is like.
    """
    return f"{city} {unit} {days} {places} {exact}"


def test_a_function() -> None:
    assert schema_of(weather) == {"type": "function", "function": {
        "name": "weather", "description": "Tell the weather of a place.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string",
                     "description": "The name of the city: with its country."},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
            "days": {"type": ["integer", "null"], "description": "Days from now."},
            "places": {"type": "array", "items": {"type": "string"}},
            "exact": {"type": "boolean"}}, "required": ["city", "places"]}}}


def test_lines_of_parameters() -> None:
    def find(query: str, limit: int = 3) -> None:
        """Find things.

        :param query: What to find.
        :param int limit: At most so many.
        :return: nothing
        """
    made = schema_of(find)["function"]
    assert made["description"] == "Find things."
    assert made["parameters"]["properties"]["query"]["description"] == "What to find."
    assert made["parameters"]["properties"]["limit"]["description"] == "At most so many."


@pytest.mark.parametrize(("hint", "expected"), [
    (str, {"type": "string"}), (float, {"type": "number"}), (Any, {}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (list[dict[str, Any]], {"type": "array", "items": {"type": "object"}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (dict[str, set[int]], {"type": "object", "additionalProperties": {
        "type": "array", "items": {"type": "integer"}}}), (frozenset, {"type": "array"}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal[1, "b"], {"enum": [1, "b"]}),
    (Annotated[int, "How many"], {"type": "integer", "description": "How many"}),
    (list[str] | None, {"anyOf": [{"type": "array", "items": {"type": "string"}},
                                  {"type": "null"}]})])
def test_types(hint: Any, expected: dict[str, Any]) -> None:
    def tool(x: Any) -> None: ...
    tool.__annotations__["x"] = hint
    assert schema_of(tool)["function"]["parameters"]["properties"]["x"] == expected


def test_methods_objects_and_no_parameters() -> None:
    class Clock:
        """A clock."""

        def now(self) -> str:
            """Tell the time."""
            return "noon"

        def __call__(self, zone: str) -> str:
            return zone

    assert schema_of(Clock().now)["function"] == {
        "name": "now", "description": "Tell the time.",
        "parameters": {"type": "object", "properties": {}}}
    made = schema_of(Clock())["function"]["parameters"]
    assert made["properties"] == {"zone": {"type": "string"}}


@dataclasses.dataclass
class Place:
    name: str
    inside: Place | None = None


def test_classes_are_defined_once() -> None:
    def tool(here: Place, there: list[Place]) -> None: ...
    made = schema_of(tool)["function"]["parameters"]
    assert made["properties"] == {
        "here": {"$ref": "#/$defs/Place"},
        "there": {"type": "array", "items": {"$ref": "#/$defs/Place"}}}
    assert list(made["$defs"]) == ["Place"]
    assert made["$defs"]["Place"]["required"] == ["name"]


def test_classes_in_classes_and_of_one_name() -> None:
    @dataclasses.dataclass
    class Trip:
        to: Place

    def other() -> type:
        @dataclasses.dataclass
        class Trip:
            days: int
        return Trip

    def tool(trip: Any, here: Place, length: Any) -> None: ...
    tool.__annotations__ |= {"trip": Trip, "length": other()}
    Trip.__annotations__["to"] = Place
    made = schema_of(tool)["function"]["parameters"]
    inner = {key: made["$defs"][schema["$ref"].removeprefix("#/$defs/")]
             for key, schema in made["properties"].items()}
    assert inner["trip"]["properties"]["to"] == made["properties"]["here"]
    assert inner["length"]["properties"] == {"days": {"type": "integer"}}
    assert len(made["$defs"]) == 3


def test_dicts_stay() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    read = read_tools([tool, weather])
    assert read is not None and read[0] is tool and read[1]["function"]["name"] == "weather"
    assert read_tools(None) is None and read_tools([]) == []


def takes(hint: Any) -> Callable[..., Any]:
    def tool(x: Any) -> None: ...
    tool.__annotations__["x"] = hint
    return tool


@pytest.mark.parametrize(("tools", "told"), [
    ("f", "must be a list"), ({"type": "function"}, "must be a list"), ([5], r"tools\[0\]"),
    ([takes(complex)], r"tool\(x\)"), ([takes("Missing")], "can't be read"), ([max], "max")])
def test_errors(tools: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        read_tools(tools)
