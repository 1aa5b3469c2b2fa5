"""What llguidance can't compile is left out of a schema, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from unladen.sample.constrain.relaxing import MAX_KEPT_CHARS, MAX_LEFT_OUT, relaxed


@pytest.mark.parametrize("schema", [
    True, {"type": "object"}, {"type": "object", "properties": {"a": {"enum": ["x", 1]}}},
    {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string", "maxLength": 4}]}])
def test_what_can_be_compiled_stays(schema: Any) -> None:
    assert relaxed(schema) == (schema, [])


def test_keywords_are_left_out_where_they_stand() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {
        "meta/data": {"type": "object", "propertyNames": {"type": "string"}},
        "list": {"type": "array", "prefixItems": [{"type": "string", "format": "strange"}],
                 "uniqueItems": True},
        "word": {"type": "string", "pattern": "(?=a)b"}}, "required": ["word"]}
    found, left_out = relaxed(schema)
    assert found == {"type": "object", "properties": {
        "meta/data": {"type": "object"},
        "list": {"type": "array", "prefixItems": [{"type": "string"}]},
        "word": {"type": "string"}}, "required": ["word"]}
    assert sorted(left_out) == [
        "format at #/properties/list/prefixItems/0", "pattern at #/properties/word",
        "propertyNames at #/properties/meta~1data", "uniqueItems at #/properties/list"]
    assert schema["properties"]["word"] == {"type": "string", "pattern": "(?=a)b"}


def test_a_second_request_makes_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same schema is kept, and a caller that changes its result changes no other's."""
    schema = {"type": "object", "properties": {"once": {"type": "string", "format": "strange"}}}
    first, left_out = relaxed(schema)
    first["properties"].clear()
    left_out.clear()
    monkeypatch.setattr("unladen.sample.constrain.relaxing.check", None)
    found, left_out = relaxed(schema)
    assert found == {"type": "object", "properties": {"once": {"type": "string"}}}
    assert left_out == ["format at #/properties/once"]
    other = {"type": "object", "description": "x" * MAX_KEPT_CHARS}
    with pytest.raises(TypeError):
        relaxed(other)  # needs a trial
    monkeypatch.undo()
    assert relaxed(other) == (other, [])


def test_a_schema_without_hope_is_one_of_any_object() -> None:
    found, left_out = relaxed(False)
    assert (found, len(left_out)) == ({"type": "object"}, 1)
    many = {"type": "object", "properties": {
        f"p{i}": {"type": "string", "format": "strange"} for i in range(MAX_LEFT_OUT + 1)}}
    found, left_out = relaxed(many)
    assert found == {"type": "object"}
    assert str(MAX_LEFT_OUT) in left_out[0]
