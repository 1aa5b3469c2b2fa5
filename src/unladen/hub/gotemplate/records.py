"""Messages and tools as the records that templates see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.hub.gotemplate.values import (
    MAX_NESTING,
    Field,
    JsonList,
    JsonMap,
    Kinds,
    NilJsonList,
    NilList,
    Record,
    Value,
)

_EXACT: Final = 1 << 53
"""Whole numbers below this are floats in Go, where JSON has no others; larger ones stay exact."""
_LONGEST: Final = 1000
"""Bits of a whole number at most."""
_MESSAGE: Final = (
    Field("Role", "role", True), Field("Content", "content", True), Field("Thinking", "thinking"),
    Field("Images", "images"), Field("ToolCalls", "tool_calls"), Field("ToolName", "tool_name"),
    Field("ToolCallID", "tool_call_id"))
_CALL: Final = (Field("ID", "id"), Field("Function", "function", True))
_CALLED: Final = (Field("Index", "index", True), Field("Name", "name", True),
                  Field("Arguments", "arguments", True))
_TOOL: Final = (Field("Type", "type", True), Field("Function", "function", True))
_FUNCTION: Final = (Field("Name", "name", True), Field("Description", "description"),
                    Field("Parameters", "parameters", True))
_PARAMETERS: Final = (Field("Type", "type", True), Field("Required", "required"),
                      Field("Properties", "properties", True))
_PROPERTY: Final = (
    Field("AnyOf", "anyOf"), Field("Type", "type"), Field("Items", "items"),
    Field("Description", "description"), Field("Enum", "enum"))


class BrokenOff(str):
    """Arguments of a call that a model didn't finish: templates write them as they are."""


@dataclass(slots=True)
class Turn:
    """The data of one rendering of a template that knows no messages."""

    system: str = ""
    prompt: str = ""
    response: str = ""

    @property
    def data(self) -> dict[str, Value]:
        """The template's data."""
        return {"System": self.system, "Prompt": self.prompt, "Response": self.response}


def message(role: str, content: str, **values: Value) -> Record:
    """A message; ``values`` are its further fields."""
    empty: dict[str, Value] = {"Thinking": "", "Images": NilList(), "ToolCalls": NilList(),
                               "ToolName": "", "ToolCallID": ""}
    return Record("message", _MESSAGE, {"Role": role, "Content": content, **empty, **values})


def messages_of(messages: Sequence[Mapping[str, Any]]) -> list[Record]:
    """``messages`` as records. Raises :class:`InvalidArgument`."""
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise _wrong("messages", "a list of messages", messages)
    return [_message(f"messages[{i}]", m) for i, m in enumerate(messages)]


def _message(where: str, given: Any) -> Record:
    said = _mapping(where, given)
    calls = said.get("tool_calls")
    return message(
        _text(f"{where}.role", said.get("role")), _content(f"{where}.content", said.get("content")),
        Thinking=_text(f"{where}.thinking", said.get("thinking", said.get("reasoning_content"))),
        Images=_list(f"{where}.images", said.get("images")),
        ToolCalls=[_call(f"{where}.tool_calls[{i}]", call, i)
                   for i, call in enumerate(_list(f"{where}.tool_calls", calls))] or NilList(),
        ToolName=_text(f"{where}.tool_name", said.get("tool_name", said.get("name"))),
        ToolCallID=_text(f"{where}.tool_call_id", said.get("tool_call_id")))


def _content(where: str, given: Any) -> str:
    """A content's text; that of a list of text parts is its parts with line breaks between."""
    if not isinstance(given, list):
        return _text(where, given)
    parts = [_mapping(f"{where}[{i}]", part) for i, part in enumerate(given)]
    if any(part.get("type") != "text" for part in parts):
        raise InvalidArgument(f"{where} has parts that aren't text",
                              hint="Go templates take texts; pass pictures as images")
    return "\n".join(_text(f"{where}[{i}].text", part.get("text")) for i, part in enumerate(parts))


def _call(where: str, given: Any, index: int) -> Record:
    call = _mapping(where, given)
    function = _mapping(f"{where}.function", call.get("function", call))
    arguments = function.get("arguments")
    if isinstance(arguments, str) and not isinstance(arguments, BrokenOff):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise InvalidArgument(f"{where}: the arguments aren't JSON",
                                  hint="pass an object, or its JSON") from None
    number = function.get("index")
    called = Record("function", _CALLED, {
        "Index": number if isinstance(number, int) else index,
        "Name": _text(f"{where}.function.name", function.get("name")),
        "Arguments": (str(arguments) if isinstance(arguments, BrokenOff) else JsonMap(
            _plain(_mapping(f"{where}.function.arguments", arguments or {}))))})
    return Record("tool call", _CALL, {"ID": _text(f"{where}.id", call.get("id")),
                                       "Function": called})


def tools_of(tools: Sequence[Mapping[str, Any]] | None) -> JsonList:
    """``tools`` as records. Raises :class:`InvalidArgument`."""
    if tools is None:
        return NilJsonList()
    return JsonList(_tool(f"tools[{i}]", tool) for i, tool in enumerate(_list("tools", tools)))


def _tool(where: str, given: Any) -> Record:
    tool = _mapping(where, given)
    function = _mapping(f"{where}.function", tool.get("function", tool))
    schema = _mapping(f"{where}.function.parameters", function.get("parameters") or {})
    properties = _mapping(f"{where}.function.parameters.properties", schema.get("properties") or {})
    parameters = Record("parameters", _PARAMETERS, {
        "Type": _text(f"{where}.function.parameters.type", schema.get("type")),
        "Required": _list(f"{where}.function.parameters.required", schema.get("required")),
        "Properties": JsonMap({str(name): _property(f"{where}: {name}", each, 0)
                               for name, each in properties.items()})})
    return Record("tool", _TOOL, {"Type": str(tool.get("type") or "function"), "Function": Record(
        "function", _FUNCTION, {
            "Name": _text(f"{where}.function.name", function.get("name")),
            "Description": _text(f"{where}.function.description", function.get("description")),
            "Parameters": parameters})}, prints_json=True)


def _property(where: str, given: Any, depth: int) -> Record:
    if depth > MAX_NESTING:
        raise InvalidArgument(f"{where} nests too deeply", hint="make the schema simpler")
    schema = _mapping(where, given)
    kinds = schema.get("type")
    return Record("property", _PROPERTY, {
        "AnyOf": [_property(where, each, depth + 1)
                  for each in _list(f"{where}.anyOf", schema.get("anyOf"))] or NilList(),
        "Type": Kinds([kinds] if isinstance(kinds, str) else map(str, _list(where, kinds))),
        "Items": _plain(schema.get("items")),
        "Description": _text(f"{where}.description", schema.get("description")),
        "Enum": _plain(_list(f"{where}.enum", schema.get("enum"))) or NilList()})


def _plain(value: Any, depth: int = 0) -> Any:
    """``value`` as Go reads it from JSON: numbers are floats where that is exact."""
    if depth > MAX_NESTING:
        raise InvalidArgument("a message or a tool nests too deeply", hint="make it simpler")
    if isinstance(value, Mapping):
        return {str(key): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        if value.bit_length() > _LONGEST:
            raise InvalidArgument(f"a number has {value.bit_length()} bits",
                                  hint=f"whole numbers may have {_LONGEST}; pass a text")
        return float(value) if abs(value) < _EXACT else value
    raise _wrong("a value of a message or a tool", "what JSON has", value)


def _mapping(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise _wrong(where, "a dict", given)
    return given


def _list(where: str, given: Any) -> list[Any]:
    if given is None:
        return NilList()
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise _wrong(where, "a list", given)
    return list(given)


def _text(where: str, given: Any) -> str:
    if given is None:
        return ""
    if not isinstance(given, str):
        raise _wrong(where, "a text", given)
    return given


def _wrong(where: str, what: str, given: Any) -> InvalidArgument:
    return InvalidArgument(f"{where} must be {what}, got {type(given).__name__}",
                           hint="pass messages and tools as OpenAI's clients send them")
