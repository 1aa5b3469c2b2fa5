"""Reads calls that are JSON objects with a name and arguments, one or a list of them."""

from __future__ import annotations

import json

from unladen.chat.forms import JsonCalls
from unladen.chat.json_text import as_json
from unladen.chat.marks import NotACall, Steps
from unladen.chat.reader import Reader

_NULL = "null"
MAX_KEYS = 64
"""Keys that the object of a call may have; its arguments are not counted."""


def read_json_calls(r: Reader, form: JsonCalls, needs_offered: bool = False,
                    call_id: str = "") -> Steps[None]:
    """Read a call or a list of calls; ``call_id`` is the id of one that doesn't hold its own.
    Raises :class:`NotACall`."""
    yield from r.tape.blank()
    if (yield from r.tape.peek()) != "[":
        yield from _JsonCall(r, form, needs_offered, call_id).read()
        return
    r.tape.take(1)
    if (yield from r.tape.optional("]")):
        return
    while True:
        yield from _JsonCall(r, form, needs_offered).read()
        if not (yield from r.tape.optional(",")):
            break
    yield from r.tape.literal("]")


class _JsonCall:
    """Reads one object. Arguments that come before the name wait for it."""

    def __init__(self, r: Reader, form: JsonCalls, needs_offered: bool, call_id: str = ""
                 ) -> None:
        self._r, self._form, self._needs_offered = r, form, needs_offered
        self._name, self._id = "", call_id
        self._early: str | None = None
        self._is_begun = False
        self._n_keys = 0

    def read(self) -> Steps[None]:
        yield from self._object(1)
        if not self._name:
            raise NotACall("no tool is named")
        if not self._is_begun:
            self._begin()
            self._r.answer.arguments(self._early or "{}")
        self._r.finish_call(self._id)

    def _object(self, depth: int) -> Steps[None]:
        tape = self._r.tape
        yield from tape.literal("{")
        if (yield from tape.optional("}")):
            return
        while True:
            yield from self._pair(depth)
            if not (yield from tape.optional(",")):
                break
        yield from tape.literal("}")

    def _pair(self, depth: int) -> Steps[None]:
        form, tape = self._form, self._r.tape
        self._n_keys += 1
        if self._n_keys > MAX_KEYS:
            raise NotACall(f"an object has more than {MAX_KEYS} keys")
        key = yield from self._text()
        yield from tape.literal(":")
        yield from tape.blank()
        first = yield from tape.peek()
        if form.name_is_key and not self._name:
            self._name = key
            yield from self._arguments(first)
        elif key in form.names and first == '"' and not self._name:
            self._name = yield from self._text()
            if self._needs_offered and self._name not in self._r.tools:
                raise NotACall(f"no tool {self._name[:40]!r} was offered")
        elif key in form.arguments and self._early is None and not self._is_begun:
            yield from self._arguments(first)
        elif key in form.ids and first == '"':
            self._id = yield from self._text()
        elif key == form.wrapper and first == "{" and depth == 1:
            yield from self._object(depth + 1)
        elif self._needs_offered and key != "type":
            raise NotACall(f"a call has no {key[:40]!r}")
        else:
            yield from self._r.value(lambda _: None)

    def _text(self) -> Steps[str]:
        """A JSON string, decoded."""
        pieces: list[str] = []
        yield from self._r.tape.blank()
        if (yield from self._r.tape.peek()) != '"':
            raise NotACall("a key or a name has no quotes")
        yield from self._r.value(pieces.append)
        return str(json.loads("".join(pieces)))

    def _begin(self) -> None:
        self._r.begin_call(self._name, self._id, needs_offered=self._needs_offered,
                           is_held=self._form.id_comes_last and not self._id)
        self._is_begun = True

    def _arguments(self, first: str) -> Steps[None]:
        if first == "{" and self._name:
            self._begin()
            yield from self._r.value(self._r.answer.arguments)
            return
        pieces: list[str] = []
        yield from self._r.value(pieces.append)
        self._early = _object_text("".join(pieces))
        if self._name:
            self._begin()
            self._r.answer.arguments(self._early)


def _object_text(value: str) -> str:
    """Arguments that aren't written as an object at once: null, or a string that holds one."""
    if value.startswith('"'):
        value = as_json(str(json.loads(value)) or "{}") or ""
    if value == _NULL:
        return "{}"
    if not value.startswith("{"):
        raise NotACall("the arguments aren't an object")
    return value
