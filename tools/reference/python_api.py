"""The page about the Python API: signatures and docstrings of what programs call."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import unladen
from reference.markdown import prose, table
from unladen import api, backends, chat, errors, gpu, sample, types
from unladen.api import chat_stream
from unladen.backends import base
from unladen.chat import completion
from unladen.gguf.glance import glance
from unladen.hub import gotemplate, modelfile, stores
from unladen.schedule import fit
from unladen.schedule.show import report

HEAD = """# Python API

`from unladen import Model` is enough for most programs. Importing `unladen` takes very little time:
its parts are loaded when they are first used. Errors are [below](#errors): each says what is wrong,
where, and what to try.

"""
WIDTH = 88
"""Columns of a signature before it is broken into lines."""
SECTIONS: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = (
    ("Models", (("unladen.Model", api.Model), ("unladen.plan", unladen.plan),
                ("unladen.quantize", unladen.quantize), ("unladen.devices", unladen.devices))),
    ("What a generation gives", (("unladen.Completion", types.Completion),
                                 ("unladen.types.Usage", types.Usage),
                                 ("unladen.types.Timings", types.Timings),
                                 ("unladen.types.TokenLogprob", types.TokenLogprob),
                                 ("unladen.types.LoadProgress", types.LoadProgress),
                                 ("unladen.api.Stream", api.Stream),
                                 ("unladen.api.Session", api.Session))),
    ("Chats", (("unladen.chat.completion.ChatCompletion", completion.ChatCompletion),
               ("unladen.chat.Message", chat.Message), ("unladen.chat.ToolCall", chat.ToolCall),
               ("unladen.api.chat_stream.ChatStream", chat_stream.ChatStream),
               ("unladen.chat.render", chat.render), ("unladen.chat.parse", chat.parse),
               ("unladen.chat.ChatTemplate", chat.ChatTemplate),
               ("unladen.chat.Parser", chat.Parser))),
    ("Answers of a given form", (("unladen.json_schema", unladen.json_schema),
                                 ("unladen.grammar", unladen.grammar),
                                 ("unladen.lark", unladen.lark),
                                 ("unladen.regex", unladen.regex))),
    ("Models on this machine", (
        ("unladen.hub.stores.listed", stores.listed), ("unladen.hub.stores.find", stores.find),
        ("unladen.hub.stores.find_one", stores.find_one),
        ("unladen.hub.stores.read_preset", stores.read_preset),
        ("unladen.hub.stores.StoredModel", stores.StoredModel),
        ("unladen.gguf.glance.glance", glance))),
    ("Modelfiles and Go templates", (
        ("unladen.hub.modelfile.parse", modelfile.parse),
        ("unladen.hub.modelfile.read", modelfile.read),
        ("unladen.hub.modelfile.Modelfile", modelfile.Modelfile),
        ("unladen.hub.gotemplate.render", gotemplate.render),
        ("unladen.hub.gotemplate.GoTemplate", gotemplate.GoTemplate))),
    ("Choosing tokens", (("unladen.SamplingParams", sample.SamplingParams),
                         ("unladen.SamplerChain", sample.SamplerChain),
                         ("unladen.sample.Sampler", sample.Sampler),
                         ("unladen.sample.Step", sample.Step),
                         ("unladen.sample.Candidates", sample.Candidates),
                         ("unladen.sample.State", sample.State),
                         ("unladen.sample.Constraint", sample.Constraint),
                         ("unladen.sample.Constrains", sample.Constrains),
                         ("unladen.sample.mask_of", sample.mask_of))),
    ("Plans and devices", (("unladen.schedule.show.report.PlanReport", report.PlanReport),
                           ("unladen.schedule.fit.MemoryPlan", fit.MemoryPlan),
                           ("unladen.schedule.fit.DeviceMemory", fit.DeviceMemory),
                           ("unladen.backends.Device", base.Device))),
)
"""The sections of the page in their order; modules and errors follow."""


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for title, names in SECTIONS:
        parts.append(f"## {title}\n\n")
        parts += [_thing(name, thing) for name, thing in names]
    for name, module in (("unladen.gpu", gpu), ("unladen.backends", backends)):
        parts.append(f"## {name}\n\n{_doc(module)}\n\n")
        parts += [_function(f"{name}.{each}", function) for each, function in _functions(module)]
    return "".join([*parts, _errors()]).rstrip() + "\n"


def _functions(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    named = getattr(module, "__all__", ())
    for name in named or list(vars(module)):
        thing = getattr(module, name)
        if (inspect.isfunction(inspect.unwrap(thing)) and not name.startswith("_")
                and (named or thing.__module__ == module.__name__)
                and name not in ("registry", "found")):
            yield name, thing


def _thing(name: str, thing: Any) -> str:
    return _class(name, thing) if isinstance(thing, type) else _function(name, thing)


def _function(name: str, function: Callable[..., Any], level: int = 3) -> str:
    return (f"{'#' * level} {name}\n\n{_code(name.rpartition('.')[2], function)}"
            f"{_doc(function)}\n\n")


def _class(name: str, cls: type) -> str:
    text = f"### {name}\n\n"
    if is_dataclass(cls):
        text += table(("field", "type"), (
            (f"`{f.name}`", f"`{_plain(f.type)}`") for f in fields(cls)
            if not f.name.startswith("_"))) + "\n"
    elif "__init__" in vars(cls) and not getattr(cls, "_is_protocol", False):
        text += _code("__init__", cls.__init__, of=cls.__name__)
    text += f"{_doc(cls)}\n\n"
    for each, member in _members(cls):
        if isinstance(member, property):
            assert member.fget is not None
            kind = _plain(inspect.signature(member.fget).return_annotation)
            text += f"#### {cls.__name__}.{each}\n\n`{kind}`. {_doc(member)}\n\n"
        else:
            function = inspect.unwrap(getattr(member, "__func__", member))
            text += (f"#### {cls.__name__}.{each}\n\n{_code(each, function)}{_doc(member)}\n\n")
    return text


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, in the order of the source, those of private bases first."""
    found: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("unladen."):
            found |= {name: m for name, m in vars(each).items() if not name.startswith("_")}
    for name, member in found.items():
        if isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member):
            yield name, member


def _doc(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    return prose(text) if not text.startswith("See :class:") else ""


def _code(name: str, function: Callable[..., Any], of: str = "") -> str:
    """The signature of ``function`` as Python code."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if not p.name.startswith("_")]
    words = [_parameter(p) for p in parameters]
    for i, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not any(
                q.kind in (q.VAR_POSITIONAL, q.KEYWORD_ONLY) for q in parameters[:i]):
            words.insert(i, "*")
    result = signature.return_annotation
    arrow = "" if result is signature.empty or of else f" -> {_plain(result)}"
    kind = "async def" if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(
        function) else "def"
    indent = "    " if of else ""
    line = f"{indent}{kind} {name}({', '.join(words)}){arrow}: ..."
    if len(line) > WIDTH:
        inner = "".join(f"{indent}    {word},\n" for word in words)
        line = f"{indent}{kind} {name}(\n{inner}{indent}){arrow}: ..."
    code = f"class {of}:\n{line}" if of else line
    ast.parse(code)
    return f"```python\n{code}\n```\n\n"


def _parameter(p: inspect.Parameter) -> str:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = "" if p.annotation is p.empty else f": {_plain(p.annotation)}"
    if p.default is p.empty:
        return f"{stars}{p.name}{kind}"
    return f"{p.name}{kind} = {_value(p.default)}" if kind else f"{p.name}={_value(p.default)}"


def _value(value: object) -> str:
    text = repr(value)
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return "..."
    return text


def _plain(annotation: object) -> str:
    """An annotation without the modules of its names."""
    if isinstance(annotation, type):
        return annotation.__name__
    text = str(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text).replace("NoneType", "None")


def _errors() -> str:
    text = f"## Errors\n\n{_doc(errors)}\n\n"
    classes = [c for c in vars(errors).values()
               if isinstance(c, type) and c.__module__ == errors.__name__]
    return text + table(("unladen.errors", "is also", "when"), (
        (f"`{c.__name__}`", ", ".join(f"`{b.__name__}`" for b in c.__bases__), _doc(c))
        for c in classes))
