"""Reads calls in the form that a :class:`~unladen.chat.forms.CallForm` describes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unladen.chat import forms
from unladen.chat.json_calls import read_json_calls
from unladen.chat.json_text import Syntax
from unladen.chat.marks import WHITE, Marks, NotACall, Steps
from unladen.chat.parameters import read_parameters
from unladen.chat.python_calls import read_python_calls
from unladen.chat.python_tag import read_python_tag
from unladen.chat.reader import Reader

MAX_NAME = 256
"""Characters that a tool's name or a call's id may have."""
NAME = re.compile(r"[\w.\-:/]*")
"""The characters of names and ids."""
_INDEX = re.compile(r"\d*")


def read_section(r: Reader, form: forms.CallForm) -> Steps[None]:
    """Read calls from a mark of ``form`` on, which comes next; without marks, from here on."""
    section, begin = form.section_begin.strip(WHITE), form.begin.strip(WHITE)
    if form.marks:
        found = yield from r.tape.optional(*form.marks)
        if found == section and begin and begin != section:
            yield from r.tape.literal(begin)
    yield from read_calls(r, form)


def read_calls(r: Reader, form: forms.CallForm) -> Steps[None]:
    """Read calls of which the first one's mark was read."""
    begin = form.begin.strip(WHITE)
    while True:
        yield from _Call(r, form).read()
        yield from _optional(r, form.end)
        if not (yield from _goes_on(r, form, begin)):
            break
    yield from _optional(r, form.section_end)


def _goes_on(r: Reader, form: forms.CallForm, begin: str) -> Steps[bool]:
    """Whether another call comes; takes what stands before it."""
    separator, section_end = form.separator.strip(WHITE), pieces(form.section_end)[:1]
    if not form.has_section and not (begin and separator):
        return False
    n, found = yield from r.tape.ahead([separator])
    if not begin:
        if separator and not found:
            return False
        r.tape.take(n)
        return bool(separator) or (bool(section_end) and not (
            yield from r.tape.ahead(section_end))[1] and not (yield from r.tape.ends_after(0)))
    n, found = yield from r.tape.ahead([begin], skip=n)
    r.tape.take(n)
    return bool(found)


def _optional(r: Reader, text: str) -> Steps[None]:
    """Take those marks in ``text`` that come, in their order."""
    for mark in pieces(text):
        yield from r.tape.optional(mark)
    r.tape.forget()


def pieces(text: str) -> list[str]:
    """The marks that ``text`` consists of."""
    return [mark for word in text.split() for mark in re.findall(r"<[^<>]*>?|[^<]+", word)]


class _Call:
    """Reads the parts of one call."""

    def __init__(self, r: Reader, form: forms.CallForm) -> None:
        self._r, self._form = r, form
        self._name = self._id = ""
        self._is_begun = False

    def read(self) -> Steps[None]:
        parts = self._form.parts
        for i, part in enumerate(parts):
            yield from self._read(part, parts[i + 1:])
        if self._name:
            self._begin()
        if self._is_begun:
            yield from self._end()

    def _begin(self) -> None:
        """Everything that tells the call's name and id was read."""
        if not self._is_begun:
            # An id that comes behind the arguments has to be waited for.
            is_held = not self._id and any(isinstance(p, forms.Id) and not p.is_optional
                                           for p in self._form.parts)
            self._r.begin_call(self._name, self._id, is_held=is_held,
                               needs_offered=self._form.needs_offered)
            self._is_begun = True

    def _end(self) -> Steps[None]:
        if any(isinstance(p, forms.Parameters) for p in self._form.parts):
            # Without an end mark the last value could go on.
            ends = [*pieces(self._form.end), *pieces(self._form.section_end)[:1]]
            if ends and not (yield from self._r.tape.ahead(ends))[1]:
                yield from self._missing(ends[0])
        self._r.finish_call(self._id)

    def _missing(self, mark: str) -> Steps[None]:
        """``mark`` doesn't come. Raises :class:`NotACall`."""
        yield from self._r.tape.blank()
        yield from self._r.tape.peek()
        raise NotACall(f"{mark!r} is missing")

    def _read(self, part: forms.Part, rest: Sequence[forms.Part]) -> Steps[None]:
        r = self._r
        match part:
            case forms.Literal(text, is_optional):
                yield from _optional_in(r, text) if is_optional else r.tape.literal(text)
            case forms.Name():
                self._name = yield from self._word(rest)
            case forms.Id(before, is_optional):
                if (yield from self._has(before, is_optional)):
                    self._id = yield from self._word(rest)
            case forms.IdWithName(before):
                self._id = yield from self._word(rest)
                name = re.sub(r":\d+$", "", self._id).removeprefix(before)
                self._name = name.removeprefix("functions.")
            case forms.Index():
                yield from r.tape.blank()
                yield from r.tape.word(_INDEX, MAX_NAME)
            case forms.Again(what):
                yield from r.tape.literal(self._name if what == "name" else self._id)
            case forms.Skip():
                yield from self._word(rest)
            case forms.Arguments(syntax):
                yield from self._arguments(syntax)
            case forms.Parameters(key_open):
                ends, opening = self._ends(rest), key_open.strip(WHITE)
                if opening and ends and not (yield from r.tape.ahead([*ends, opening]))[1]:
                    yield from self._missing(opening)
                self._begin()
                yield from read_parameters(r, part, self._name, ends)
            case forms.JsonCalls():
                yield from read_json_calls(r, part, self._form.needs_offered, self._id)
                while self._form.end.strip(WHITE) and (yield from r.tape.ahead(["{"]))[1]:
                    yield from read_json_calls(r, part, self._form.needs_offered)
            case forms.PythonCalls(suffix):
                yield from read_python_calls(r, suffix)
            case forms.PythonTag(default):
                yield from read_python_tag(r, default)

    def _has(self, before: str, is_optional: bool) -> Steps[bool]:
        if not is_optional:
            yield from self._r.tape.literal(before)
            return True
        return bool((yield from self._r.tape.optional(before)))

    def _ends(self, rest: Sequence[forms.Part]) -> list[str]:
        """What may come behind the last parameter."""
        after = [p.text for p in rest if isinstance(p, forms.Literal) and p.text.strip(WHITE)]
        if after:
            return pieces(after[0])[:1]
        return [*pieces(self._form.end), *pieces(self._form.section_end)[:1]]

    def _arguments(self, syntax: Syntax) -> Steps[None]:
        r = self._r
        yield from r.tape.blank()
        if (yield from r.tape.peek()) != "{":
            raise NotACall("the arguments aren't an object")
        self._begin()
        yield from r.object(r.answer.arguments, syntax)

    def _word(self, rest: Sequence[forms.Part]) -> Steps[str]:
        """A name or an id: up to the text that follows, or as far as its characters go."""
        r = self._r
        yield from r.tape.blank()
        follows = rest[0].text if rest and isinstance(rest[0], forms.Literal) else ""
        if follows[:1].strip(WHITE) and NAME.fullmatch(follows[0]):
            return (yield from self._up_to(pieces(follows)[0]))
        word = yield from r.tape.word(NAME, MAX_NAME)
        if not word:
            raise NotACall("a name is missing")
        return word

    def _up_to(self, mark: str) -> Steps[str]:
        word: list[str] = []

        def add(text: str) -> None:
            word.append(text)
            if sum(map(len, word)) > MAX_NAME:
                raise NotACall("a name is missing")
        if not (yield from self._r.tape.until(Marks([mark]), add)):
            yield from self._r.tape.wait()
        return "".join(word)


def _optional_in(r: Reader, text: str) -> Steps[None]:
    yield from r.tape.optional(text)
