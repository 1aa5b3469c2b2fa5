"""JSON schemas: what fits, and errors that name the keyword and its place."""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from sample.constrain.conftest import Fits
from unladen.errors import ConstraintFailed, InvalidArgument, UnsupportedSchema
from unladen.sample.constrain.guide import Guide
from unladen.sample.constrain.schema import MAX_DEPTH, JsonSchema


def test_shared_schemas(shared: Path, fits: Fits) -> None:
    schemas = json.loads((shared / "chat/schemas.json").read_text())["schemas"]
    assert len(schemas) >= 100
    for each in schemas:
        language = JsonSchema(each["schema"])
        if each.get("may_refuse"):
            with pytest.raises(UnsupportedSchema) as caught:
                fits(language, "1")
            assert caught.value.keyword and caught.value.keyword in caught.value.message
            continue
        assert fits(language, json.dumps(each["valid"], ensure_ascii=False)), each["id"]
        assert not fits(language, json.dumps(each["invalid"], ensure_ascii=False)), each["id"]
        assert language.read(json.dumps(each["valid"])) == each["valid"]


@pytest.mark.parametrize(("name", "after"), [("date", ""), ("date-time", "T23:59:58Z")])
def test_dates_are_those_of_the_calendar(rng: Generator, fits: Fits, name: str, after: str) -> None:
    """As Python's calendar has them, also beside other keywords."""
    language = JsonSchema({"anyOf": [{"type": "string", "format": name}, {"type": "null"}]})
    beside = JsonSchema({"type": "string", "format": name, "pattern": "^.*-29", "maxLength": 30,
                         "allOf": [{"pattern": "02"}]})
    n_real = 0
    for _ in range(300):
        year = int(rng.choice([0, 4, 100, 400, 1900, 2000, 2023, 9999, rng.integers(10_000)]))
        month, day = int(rng.choice([0, 1, 2, 2, 2, 4, 12, 13])), int(rng.integers(27, 33))
        text = f"{year:04}-{month:02}-{day:02}"
        try:
            datetime.date.fromisoformat(text)
            is_real = True
        except ValueError:
            is_real = False
        n_real += is_real
        assert fits(language, f'"{text}{after}"') == is_real, text
        assert fits(beside, f'"{text}{after}"') == (is_real and "02" in text and day == 29), text
    assert 50 < n_real < 250
    assert fits(language, "null") and not fits(beside, "null")


@pytest.mark.parametrize(("text", "is_one"), [
    ("23:59:59Z", True), ("23:59:60Z", False), ("24:00:00Z", False), ("07:30:00.25+01:00", True)])
def test_times(fits: Fits, text: str, is_one: bool) -> None:
    assert fits(JsonSchema({"format": "time"}), f'"{text}"') == is_one
    assert fits(JsonSchema({"format": "date-time"}), f'"2024-02-29T{text}"') == is_one


@pytest.mark.parametrize(("schema", "keyword", "place"), [
    ({"format": ["date"]}, "format", "#"),
    ({"properties": {"a/b": {"items": {"not": {}}}}}, "not", "#/properties/a~1b/items"),
    ({"$defs": {"x": {"if": {}}}, "$ref": "#/$defs/x"}, "if", "#/$defs/x"),
    ({"type": "string", "format": "colour"}, "format", "#"),
    ({"properties": {"a": {"format": "date"}, "b": {"format": "colour"}}}, "format",
     "#/properties/b"),
    ({"anyOf": [{"type": "null"}, {"pattern": "(?=a)"}]}, "pattern", "#/anyOf/1"),
    ({"patternProperties": {"(?=a)": {}}}, "patternProperties", "#"),
    ({"$ref": "http://example.com/x"}, "$ref", "#"), ({"$ref": "#/$defs/y"}, "$ref", "#"),
    ({"oneOf": [{}, {}]}, "oneOf", "#"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems", "#"),
    ({"contains": {}}, "contains", "#"), ({"propertyNames": {}}, "propertyNames", "#"),
    ({"dependentRequired": {"a": ["b"]}}, "dependentRequired", "#"),
    ({"unevaluatedProperties": False}, "unevaluatedProperties", "#"),
    ({"type": "string", "minLength": "a"}, "minLength", "#"), ({"type": "text"}, "type", "#"),
    ({"minProperties": 3}, "minProperties", "#"),
    ({"properties": {"a": {}}, "maxProperties": 0}, "maxProperties", "#"),
    ({"enum": []}, "enum", "#"), (False, "", "#"),
    ({"not": {}, "x-guidance": {"lenient": True}}, "not", "#")])
def test_what_cannot_be_compiled_is_named(of_bytes: Guide, schema: Any, keyword: str, place: str
                                          ) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        JsonSchema(schema).make(of_bytes)
    assert (caught.value.keyword, caught.value.place) == (keyword, place)
    assert keyword in caught.value.message and caught.value.hint


def test_options_in_a_schema_count_for_nothing(fits: Fits) -> None:
    schema = JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}},
                         "x-guidance": {"whitespace_flexible": True, "item_separator": ";"}})
    assert fits(schema, '{"a": 1}')
    assert not fits(schema, '{\n"a": 1}') and not fits(schema, '{"a": 1; "b": 2}')


@pytest.mark.parametrize("schema", ["{", "[]", "1", {"a": float("nan")}, {"a": {1, 2}}, 5, None])
def test_no_schema(schema: Any) -> None:
    with pytest.raises(InvalidArgument, match="JSON schema"):
        JsonSchema(schema)


def test_deep_schemas(of_bytes: Guide, fits: Fits) -> None:
    schema: Any = {"type": "array"}
    for _ in range(MAX_DEPTH - 2):
        schema = {"type": "array", "items": schema}
    assert fits(JsonSchema(schema), "[" * 100 + "]" * 100)
    for n in (2, 1000, 100_000):
        deeper = schema
        for _ in range(n):
            deeper = {"items": deeper}
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            JsonSchema(deeper).make(of_bytes)
    circle: dict[str, Any] = {}
    circle["items"] = circle
    with pytest.raises(InvalidArgument, match="JSON"):
        JsonSchema(circle)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("schema", [
    {"type": "string", "pattern": "((a{1,1000}){1,1000}){1,1000}b"},
    {"type": "string", "pattern": "(.*a){1,30}.{1,1000}(.*b){1,30}"},
    {"type": "array", "minItems": 10**7, "items": {"type": "array", "minItems": 10**7}},
    {"enum": [f"{i:020}" for i in range(200_000)]},
    {"$defs": {f"n{i}": {"allOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 3} for i in range(12)}
     | {"n12": {"type": "object", "properties": {"a": {}}}}, "$ref": "#/$defs/n0"},
    {"allOf": [{"anyOf": [{"type": "string", "pattern": f"{i}.*{j}"} for j in range(12)]}
               for i in range(12)]}])
def test_hostile_schemas_end(of_bytes: Guide, schema: Any) -> None:
    """Compiled or refused, in bounded time, and what is compiled makes masks or says no. The bound
    is one of a minute in place of years."""
    start = time.monotonic()
    with contextlib.suppress(UnsupportedSchema, ConstraintFailed):
        constraint = JsonSchema(schema).make(of_bytes)()
        for _ in range(20):
            out = np.zeros(9, np.uint32)
            constraint.mask(out)
            token = int(np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little"))[-1])
            constraint.accept(token)
    assert time.monotonic() - start < 60
