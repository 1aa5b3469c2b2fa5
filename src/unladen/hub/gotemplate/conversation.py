"""Conversations as the data of Go templates, with Ollama's rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from unladen.errors import InvalidArgument, TemplateError
from unladen.hub.gotemplate.budget import Budget
from unladen.hub.gotemplate.functions import FUNCTIONS
from unladen.hub.gotemplate.nodes import Action, Branch, Node, Operand, Parsed, Path, Pipe
from unladen.hub.gotemplate.parsing import parse
from unladen.hub.gotemplate.records import Turn, message, messages_of, tools_of
from unladen.hub.gotemplate.running import run
from unladen.hub.gotemplate.values import Record, Value

_RESPONSE: Final = Action(1, Pipe(1, ((Path(None, ("Response",)),),)))
"""Writes the answer. It is added to a template that writes neither messages nor the answer."""


def render(template: str, *, messages: Sequence[Mapping[str, Any]] = (), system: str = "",
           prompt: str = "", tools: Sequence[Mapping[str, Any]] | None = None, suffix: str = "",
           think: bool | str | None = None) -> str:
    """The prompt that the Go ``template`` makes of a conversation; see
    :meth:`GoTemplate.render`."""
    return GoTemplate(template).render(messages=messages, system=system, prompt=prompt,
                                       tools=tools, suffix=suffix, think=think)


class GoTemplate:
    """A Go template, parsed once. Threads may share it.

    ``source`` is its text. Raises :class:`TemplateError` where it is malformed.
    """

    def __init__(self, source: str) -> None:
        if not isinstance(source, str):
            raise InvalidArgument(f"template must be a text, got {type(source).__name__}",
                                  hint="pass the text of a Go template")
        self.source = source
        try:
            self._parsed: Parsed = parse(source, FUNCTIONS)
        except RecursionError:
            # The caller is deep in calls itself: the parser's own limit is more than is left.
            raise TemplateError("it nests too deeply", hint="pass another template") from None
        if not {"messages", "response"} & self._parsed.names:
            self._parsed.body.append(_RESPONSE)

    @property
    def takes_messages(self) -> bool:
        """Whether the template goes over the messages itself; others are rendered turn by turn."""
        return "messages" in self._parsed.names

    @property
    def fields(self) -> frozenset[str]:
        """The names of all fields that the template reads, in lower case."""
        return self._parsed.names

    def render(self, *, messages: Sequence[Mapping[str, Any]] = (), system: str = "",
               prompt: str = "", tools: Sequence[Mapping[str, Any]] | None = None,
               suffix: str = "", think: bool | str | None = None) -> str:
        """The prompt of a conversation.

        * ``messages``: dicts with ``role`` and ``content``; they aren't changed.
        * ``system``, ``prompt``: a system message before them, a user's message after them.
        * ``tools``: dicts as OpenAI's clients send them.
        * ``suffix``: the text after ``prompt``, for a model that fills in between.
        * ``think``: whether the model should think, or how much ("low"); None: not said.

        Raises :class:`TemplateError` where the template fails on the conversation or takes too
        much time, and :class:`~unladen.errors.InvalidArgument` for what is no conversation.
        """
        said = [message("system", system)] if system else []
        said += messages_of(messages)
        said += [message("user", prompt)] if prompt and not suffix else []
        offered = tools_of(tools)
        size = len(suffix) + len(prompt) + _size(said) + _size(offered)
        budget = Budget(size)
        thinks = {"Think": think is True or (isinstance(think, str) and bool(think)),
                  "ThinkLevel": think if isinstance(think, str) else "",
                  "IsThinkSet": think is not None}
        if suffix:
            return self._run(self._parsed.body, {
                "Prompt": prompt, "Suffix": suffix, "Response": "", **thinks}, budget)
        whole_system, joined = collated(said)
        if self.takes_messages:
            return self._run(self._parsed.body, {
                "System": whole_system, "Messages": joined, "Tools": offered, "Response": "",
                **thinks}, budget)
        *before, last = turns(joined)
        texts = [self._run(self._parsed.body, {**turn.data, **thinks}, budget) for turn in before]
        texts.append(self._run(up_to_response(self._parsed.body), {**last.data, **thinks}, budget))
        return "".join(texts)

    def _run(self, body: Sequence[Node], data: Mapping[str, Value], budget: Budget) -> str:
        return run(body, self._parsed.defined, data, budget)


def collated(messages: Sequence[Record]) -> tuple[str, list[Record]]:
    """All system messages in one, and ``messages`` with neighbours of one role as one message. Tool
    results stay apart. The first neighbour's calls and pictures count."""
    system = "\n\n".join(m.values["Content"] for m in messages if m.values["Role"] == "system")
    found: list[tuple[Record, list[str]]] = []
    for each in messages:
        role = each.values["Role"]
        if found and found[-1][0].values["Role"] == role != "tool":
            found[-1][1].append(each.values["Content"])
        else:
            found.append((each, [each.values["Content"]]))
    return system, [Record(m.kind, m.fields, {**m.values, "Content": "\n\n".join(texts)})
                    if len(texts) > 1 else m for m, texts in found]


def turns(messages: Sequence[Record]) -> list[Turn]:
    """The turns of a conversation, for templates that know no messages. A turn ends where a user's
    message follows an answer, or a system message follows anything."""
    found = [Turn()]
    for each in messages:
        role, content = each.values["Role"], each.values["Content"]
        last = found[-1]
        if (role == "system" and (last.prompt or last.response)) or (
                role == "user" and last.response):
            found.append(Turn())
        if role == "system":
            found[-1].system = content
        elif role == "user":
            found[-1].prompt = content
        elif role == "assistant":
            found[-1].response = content
    return found


def up_to_response(body: Sequence[Node]) -> list[Node]:
    """``body`` without anything that stands behind ``.Response``. The model goes on from there."""
    return _cut(body)[0]


def _cut(body: Sequence[Node]) -> tuple[list[Node], bool]:
    """``body`` up to ``.Response``, and whether that was in it."""
    kept: list[Node] = []
    for node in body:
        if isinstance(node, Branch):
            branch, is_found = _cut_branch(node)
            kept.append(branch)
        else:
            kept.append(node)
            is_found = isinstance(node, Action) and _names_response(node.pipe)
        if is_found:
            return kept, True
    return kept, False


def _cut_branch(node: Branch) -> tuple[Branch, bool]:
    cases: list[tuple[Pipe, list[Node]]] = []
    is_found = False
    for pipe, body in node.cases:
        # Branches after .Response become empty. Their conditions stay: without them the otherwise
        # branch would be written in their place.
        inner, is_here = ([], False) if is_found else _cut(body)
        cases.append((pipe, inner))
        is_found = is_found or is_here
    otherwise, is_here = ([], False) if is_found else _cut(node.otherwise)
    return Branch(node.line, node.kind, cases, otherwise), is_found or is_here


def _names_response(operand: Operand) -> bool:
    if isinstance(operand, Pipe):
        return any(_names_response(o) for command in operand.commands for o in command)
    return isinstance(operand, Path) and (
        "Response" in operand.names if operand.base is None
        else isinstance(operand.base, Pipe) and _names_response(operand.base))


def _size(values: Sequence[Record]) -> int:
    return sum(len(text) for value in values for text in _texts(value))


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Record):
        for each in value.values.values():
            yield from _texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield json.dumps(value)
