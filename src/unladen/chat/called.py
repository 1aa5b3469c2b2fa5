"""What a constraint needs to make a model write calls in its dialect: texts around schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unladen.chat import forms
from unladen.chat.answer import new_id
from unladen.chat.forms import ID_HERE, CallForm, JsonCalls, Parameters, PythonCalls
from unladen.chat.json_text import JSON, PYTHON, Syntax
from unladen.chat.marks import WHITE
from unladen.chat.notation import NAME
from unladen.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class ToolText:
    """A call of one tool: ``before``, which begins with the mark ``trigger``, then the arguments,
    which fit ``schema``, then ``after``.

    parameters: how the arguments are written one by one in tags; None: they are one object in
    ``syntax``, or with ``are_keywords`` the keywords of a call in Python.
    """

    tool: str
    trigger: str
    before: str
    after: str
    schema: Mapping[str, Any]
    parameters: Parameters | None = None
    syntax: Syntax = JSON
    are_keywords: bool = False


@dataclass(frozen=True, slots=True)
class CalledForm:
    """Calls of tools as a model writes them.

    calls: one for each tool. opening, separator, closing: texts before the first call, between
    two, after the last; without an ``opening`` calls stand anywhere in the text. is_required: at
    least one call has to come. is_parallel: several may come. marks: marks that the text around
    calls may have.
    """

    calls: tuple[ToolText, ...]
    opening: str = ""
    separator: str = ""
    closing: str = ""
    is_required: bool = False
    is_parallel: bool = True
    marks: tuple[str, ...] = ()


Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schemas of the arguments of tools, by the tools' names."""


def chosen(tools: Schemas, choice: Any) -> tuple[Schemas, bool]:
    """(those of ``tools`` that ``choice`` allows, whether one has to be called). Raises
    :class:`~unladen.errors.InvalidArgument` for a choice that isn't one.

    choice: "none", "auto" (also None), "required" (also "any"), the name of a tool, or an object
    that names one as OpenAI's and Anthropic's clients do.
    """
    if isinstance(choice, Mapping):
        function = choice.get("function")
        named = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        choice = named if named is not None else choice.get("type", "an object without a name")
    if choice is None or choice == "auto":
        return tools, False
    if choice == "none":
        return {}, False
    if choice in ("required", "any") and tools:
        return tools, True
    if isinstance(choice, str) and choice in tools:
        return {choice: tools[choice]}, True
    raise InvalidArgument(f"tool_choice must be none, auto, required or the name of a tool, got "
                          f"{str(choice)[:80]!r}", hint=f"tools: {', '.join(tools) or 'none'}")


def called_form(form: CallForm, tools: Schemas, is_required: bool, marks: tuple[str, ...]
                ) -> CalledForm | None:
    """Calls of ``tools`` in ``form``; None where a constraint can't write them.

    tools: those that may be called. is_required: one has to be called.
    marks: marks that may stand in the text around calls.
    """
    at = next((i for i, part in enumerate(form.parts) if isinstance(
        part, forms.Arguments | JsonCalls | Parameters | PythonCalls)), None)
    if at is None or form.at_start:
        return None
    body, before, after = form.parts[at], form.parts[:at], form.parts[at + 1:]
    if isinstance(body, PythonCalls):
        return _in_python(form, body, before, after, tools, is_required, marks)
    if isinstance(body, Parameters) and (body.key_skips or any(
            kind == "literal" for _, kind in body.key_closes)):
        return None
    is_list = isinstance(body, JsonCalls) and bool(body.opening)
    calls = []
    for name, schema in tools.items():
        call_id = new_id(9, "")
        lead = "" if is_list else form.begin + _texts(before, name, call_id)
        tail = "" if is_list else _texts(after, name, call_id) + form.end
        if isinstance(body, JsonCalls):
            lead += (body.before + name + body.between).replace(ID_HERE, call_id)
            tail = body.after.replace(ID_HERE, call_id) + tail
        trigger = form.begin.strip(WHITE) or lead.partition(name)[0]
        calls.append(ToolText(name, trigger, lead.lstrip(WHITE) if not form.has_section else lead,
                              tail, schema, body if isinstance(body, Parameters) else None,
                              body.syntax if isinstance(body, forms.Arguments) else JSON))
    several = not form.needs_offered and not any(isinstance(p, forms.Index) for p in form.parts)
    result = CalledForm(tuple(calls), form.section_begin, form.separator, form.section_end,
                        is_required, several, marks)
    if not is_list or not isinstance(body, JsonCalls):
        return result
    opening = form.section_begin + form.begin + _texts(before, "", "") + body.opening
    return CalledForm(result.calls, opening.lstrip(WHITE), body.separator or ", ",
                      body.closing + _texts(after, "", "") + form.end + form.section_end,
                      is_required, several, marks)


def _in_python(form: CallForm, body: PythonCalls, before: Sequence[forms.Part],
               after: Sequence[forms.Part], tools: Schemas, is_required: bool,
               marks: tuple[str, ...]) -> CalledForm | None:
    """Calls in a list, between the marks of ``form``; None where a name can't stand in Python."""
    if not all(NAME.fullmatch(name) for name in tools):
        return None
    opening = form.section_begin + form.begin + _texts(before, "", "") + "["
    closing = "]" + _texts(after, "", "") + form.end + form.section_end
    calls = [ToolText(name, "", f"{name}{body.suffix}(", ")", schema, syntax=PYTHON,
                      are_keywords=True) for name, schema in tools.items()]
    return CalledForm(tuple(calls), opening.lstrip(WHITE), PYTHON.comma, closing, is_required,
                      not form.needs_offered, marks)


def _texts(parts: Sequence[forms.Part], name: str, call_id: str) -> str:
    """What a model writes for ``parts`` of a call of ``name``."""
    texts = []
    for part in parts:
        match part:
            case forms.Literal(text):
                texts.append(text)
            case forms.Name():
                texts.append(name)
            case forms.Id(before):
                texts.append(before + call_id)
            case forms.IdWithName(before):
                texts.append(f"{before}{name}:0")
            case forms.Index(first):
                texts.append(str(first))
            case forms.Again(what):
                texts.append(name if what == "name" else call_id)
            case forms.Skip(usual):
                texts.append(usual)
            case _:
                pass
    return "".join(texts)
