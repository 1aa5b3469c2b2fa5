"""Reads the file of tools that a model may call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from unladen.errors import InvalidArgument

MAX_BYTES: Final = 16 << 20
"""The largest file of tools that is read. A definition takes a few hundred bytes."""
_EXAMPLE: Final = ('a definition is {"type": "function", "function": {"name": "weather", '
                   '"parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}')


def tools_of(path: str | None) -> list[dict[str, Any]] | None:
    """The tools that the JSON file ``path`` defines, as OpenAI's clients write them; None where
    ``path`` is None. Raises :class:`InvalidArgument`, which names the definition at fault."""
    if path is None:
        return None
    where = f"--tools {path!r}"
    found = _parsed(_read(path, where), where)
    if not isinstance(found, list):
        raise InvalidArgument(f"{where} isn't a JSON list of tools", hint=_EXAMPLE)
    for i, tool in enumerate(found):
        if why := _fault(tool):
            raise InvalidArgument(f"{where}: tool {i}, counted from 0, {why}", hint=_EXAMPLE)
    return found


def _read(path: str, where: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument(f"{where} can't be read: {reason}",
                              hint="give a file with a JSON list of tools") from None
    if len(data) > MAX_BYTES:
        raise InvalidArgument(f"{where} is too large: more than {MAX_BYTES} bytes",
                              hint="give fewer tools, or shorter descriptions")
    return data


def _parsed(data: bytes, where: str) -> object:
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"{where} isn't JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            hint="give a file with a JSON list of tools") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{where} isn't UTF-8 text: {error.reason} at byte {error.start}",
                              hint="save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgument(f"{where} isn't JSON: {reason}",
                              hint="give a file with a JSON list of tools") from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")


def _fault(tool: object) -> str:
    """What makes ``tool`` no definition of a tool; "" where it is one."""
    if not isinstance(tool, dict):
        return "isn't an object"
    if tool.get("type", "function") != "function":
        return 'has a "type" other than "function"'
    function = tool.get("function")
    if not isinstance(function, dict):
        return 'has no object "function"'
    name = function.get("name")
    if not isinstance(name, str) or not name:
        return 'has no "name" in its "function"'
    if not isinstance(function.get("description", ""), str):
        return 'has a "description" that isn\'t a text'
    if not isinstance(function.get("parameters", {}), dict):
        return 'has "parameters" that aren\'t a JSON schema, an object'
    return ""
