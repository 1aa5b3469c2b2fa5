"""Tools as templates read them: Python functions become the JSON schemas of their parameters."""

from __future__ import annotations

import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.sample.constrain.python_types import Schemas

_SECTION: Final = re.compile(
    r"^\s*(args|arguments|parameters|returns?|raises|yields|examples?|notes?)\s*:?\s*$", re.I)
_PARAMETER: Final = re.compile(
    r"^\s*(?::param\s+(?:\S+\s+)?)?\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def read_tools(tools: Iterable[Any] | None) -> list[Any] | None:
    """``tools`` as dicts, as OpenAI's clients send them; None where there are none.

    Dicts stay as they are. A function becomes a dict by its name, its docstring and the types of
    its parameters. Raises :class:`~unladen.errors.InvalidArgument` for anything else.
    """
    if tools is None:
        return None
    if not is_listed(tools):
        raise InvalidArgument(f"tools must be a list, got {type(tools).__name__}",
                              hint="pass a list of functions or of dicts")
    read = []
    for i, tool in enumerate(tools):
        if isinstance(tool, Mapping):
            read.append(tool if isinstance(tool, dict) else dict(tool))
        elif callable(tool):
            read.append(schema_of(tool))
        else:
            raise InvalidArgument(f"tools[{i}] must be a function or a dict, got "
                                  f"{type(tool).__name__}",
                                  hint='a dict is {"type": "function", "function": {...}}')
    return read


def is_listed(value: object) -> bool:
    """Whether ``value`` has items one after another that aren't characters, bytes or keys. An array
    without a dimension has none, though its type can be iterated."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return not isinstance(value, str | bytes | Mapping)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The tool that ``function`` is: its name, what its docstring says, and its parameters.

    The docstring's first paragraph describes the tool. A section ``Args:``, or lines such as
    ``:param city:``, describe parameters. Parameters without a default are required. Raises
    :class:`~unladen.errors.InvalidArgument` for a type that JSON schema has no words for.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        hints = typing.get_type_hints(function if inspect.isroutine(function)
                                      else type(function).__call__, include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as error:
        raise InvalidArgument(f"the parameters of {name} can't be read: {error}",
                              hint="pass the tool as a dict") from None
    about, each = _described(inspect.getdoc(function) or "")
    properties: dict[str, Any] = {}
    required, schemas = [], _Parameters()
    for key, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidArgument(f"{name} takes {key} by position only",
                                  hint="a tool's parameters are given by name")
        schema = schemas.of(hints.get(key, Any), f"{name}({key})")
        properties[key] = schema | ({"description": each[key]} if key in each else {})
        if parameter.default is parameter.empty:
            required.append(key)
    return {"type": "function", "function": {
        "name": name, "description": about,
        "parameters": schemas.with_classes({"type": "object", "properties": properties}
                                           | ({"required": required} if required else {}))}}


class _Parameters(Schemas):
    """The schemas of a tool's parameters. No value is read back, so a set may be a list."""

    def of(self, kind: Any, where: str) -> dict[str, Any]:
        """See :meth:`Schemas.of`."""
        if (typing.get_origin(kind) or kind) in (set, frozenset):
            kind = types.GenericAlias(list, typing.get_args(kind) or (Any,))
        return super().of(kind, where)


def _described(text: str) -> tuple[str, dict[str, str]]:
    """What a docstring says about a function, and about each of its parameters."""
    about: list[str] = []
    each: dict[str, list[str]] = {}
    section, last, indent = "", "", 0
    for line in text.splitlines():
        found = _PARAMETER.match(line)
        if title := _SECTION.match(line):
            section, last, indent = title[1].lower(), "", 0
        elif found and (line.lstrip().startswith(":param") or (
                section in ("args", "arguments", "parameters")
                and (not last or len(line) - len(line.lstrip()) <= indent))):
            last, indent = found[1], len(line) - len(line.lstrip())
            each[last] = [found[2]]
        elif line.lstrip().startswith(":"):
            section, last = "returns", ""
        elif last and line.strip():
            each[last].append(line.strip())
        elif not section and not each:
            about.append(line)
    paragraph = textwrap.dedent("\n".join(about)).strip().partition("\n\n")[0]
    return " ".join(paragraph.split()), {k: " ".join(v).strip() for k, v in each.items()}
