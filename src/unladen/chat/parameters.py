"""Reads arguments that stand one by one between tags, and builds JSON while they arrive."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from unladen.chat.forms import Parameters
from unladen.chat.json_text import PYTHON, as_json, quoted
from unladen.chat.marks import WHITE, Marks, NotACall, Steps
from unladen.chat.reader import Reader
from unladen.chat.values import typed

MAX_KEY = 256
"""Characters that an argument's name may have."""
CDATA, CDATA_END = "<![CDATA[", "]]>"
"""Marks around a value that has no escapes."""
_WORD = re.compile(r"\w*")
BAD_KEY = re.compile(r"[<>{}\n]")
"""Characters that no argument's name may have. A name with one of them means that the model left
out the mark behind the name."""


def read_parameters(r: Reader, form: Parameters, tool: str, ends: Sequence[str]) -> Steps[None]:
    """Read the arguments of ``tool`` up to one of ``ends``, which isn't taken. Raises
    :class:`NotACall`."""
    opening = form.key_open.strip(WHITE)
    n_read = 0
    seen: set[str] = set()
    while not (yield from r.tape.ahead(ends))[1]:
        if n_read and form.separator.strip(WHITE):
            yield from r.tape.optional(form.separator)
        if opening and not (yield from r.tape.optional(opening)):
            break
        if form.key_skips:
            yield from r.tape.word(_WORD, MAX_KEY)
            yield from r.tape.literal(form.key_skips)
        key, close, kind = yield from _key(r, form)
        if key in seen:
            raise NotACall(f"{key!r} is given twice")
        seen.add(key)
        r.answer.arguments(f'{", " if n_read else "{"}"{quoted(key)}": ')
        if kind == "literal":
            yield from r.tape.blank()
            yield from r.value(r.answer.arguments, PYTHON)
            yield from r.tape.optional(key.join(form.value_close))
        else:
            yield from r.tape.exactly(close[len(close.rstrip(WHITE)):])
            yield from _Value(r, form, tool, key, kind, ends).read()
        n_read += 1
    r.answer.arguments("}" if n_read else "{}")


def _key(r: Reader, form: Parameters) -> Steps[tuple[str, str, str]]:
    """(key, text that ends it, kind of its value)."""
    pieces: list[str] = []

    def add(text: str) -> None:
        pieces.append(text)
        if sum(map(len, pieces)) > MAX_KEY or BAD_KEY.search(text.strip(WHITE)):
            raise NotACall("an argument has no name")
    closes = {text.strip(WHITE): (text, kind) for text, kind in form.key_closes}
    firsts = {re.split(rf"[{WHITE}]+", text)[0]: text for text in closes}
    yield from r.tape.blank()
    found = yield from r.tape.until(Marks(firsts), add)
    if not found:
        yield from r.tape.wait()
    key = "".join(pieces).strip(WHITE)
    if not key:
        raise NotACall("an argument has no name")
    for text in sorted(closes, key=len, reverse=True):
        if text.startswith(found) and (yield from _all(r, text)):
            return key, *closes[text]
    raise NotACall(f"something else than {found!r} follows an argument's name")


def _all(r: Reader, text: str) -> Steps[bool]:
    """Take the words of ``text``, between which white space may differ."""
    n = 0
    for word in text.split():
        n, found = yield from r.tape.ahead([word], skip=n)
        if not found:
            return False
    r.tape.take(n)
    return True


class _Value:
    """Reads one value and its closing mark."""

    def __init__(self, r: Reader, form: Parameters, tool: str, key: str, kind: str,
                 ends: Sequence[str]) -> None:
        self._r, self._form = r, form
        types = r.tools.types(tool, key) if kind == "raw" else frozenset({kind})
        self._types = types
        self._kind = kind
        self._streams = types == {"string"} and not form.is_escaped
        self._close = key.join(form.value_close).strip(WHITE) or (
            "\n" if "\n" in form.value_close[-1] else "")
        self._follows = [*ends, *(t for t in (form.key_open.strip(WHITE),
                                              form.separator.strip(WHITE)) if t)]
        self._pieces: list[str] = []
        self._held = ""

    def read(self) -> Steps[None]:
        r = self._r
        if self._form.has_cdata and (yield from r.tape.ahead([CDATA]))[1]:
            yield from r.tape.literal(CDATA)
            self._streams = self._streams or "string" in self._types or not self._types
            self._types = frozenset({"string"}) if self._streams else self._types
            self._open()
            yield from self._up_to(CDATA_END + self._close, is_sure=True)
        else:
            self._open()
            yield from self._up_to(self._close, is_sure=not self._form.key_open.strip(WHITE))
        self._finish()

    def _open(self) -> None:
        if self._streams:
            self._r.answer.arguments('"')

    def _up_to(self, close: str, is_sure: bool) -> Steps[None]:
        """Take the value. ``is_sure``: ``close`` ends it, whatever follows; otherwise only if
        another argument or the end of the call follows."""
        marks, tape = Marks([close]), self._r.tape
        if not close:
            # Nothing but the next argument or the end of the call ends the value.
            if not (yield from tape.until(Marks(self._follows), self._add)):
                yield from tape.wait()
            return
        while True:
            if not (yield from tape.until(marks, self._add)):
                yield from tape.wait()
            if is_sure or not self._follows:
                break
            if (yield from tape.ahead(self._follows, skip=len(close)))[1] or (
                    yield from self._is_last(len(close))):
                break
            self._add(tape.take(len(close)))
        tape.take(len(close))

    def _is_last(self, n: int) -> Steps[bool]:
        """Whether the text ends after ``n`` more characters and white space."""
        return (yield from self._r.tape.ends_after(n))

    def _add(self, text: str) -> None:
        """A piece of the value; a line break at its end waits."""
        if self._form.has_lines:
            text = self._held + text
            self._held = "\n" if text.endswith("\n") else ""
            text = text.removesuffix("\n")
        if self._streams:
            self._r.answer.arguments(quoted(text))
        else:
            self._pieces.append(text)

    def _finish(self) -> None:
        raw = "".join(self._pieces)
        if self._streams:
            self._r.answer.arguments('"')
            return
        if self._form.is_escaped:
            raw = html.unescape(raw)
        if self._kind == "json":
            value = as_json(raw)
            self._r.answer.arguments(value if value is not None else typed(raw, frozenset()))
        else:
            self._r.answer.arguments(typed(raw, self._types))
