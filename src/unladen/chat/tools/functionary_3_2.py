"""Functionary 3.2: every part of an answer names who it is for."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.chat.called import CalledForm, Schemas, ToolText
from unladen.chat.calls import NAME
from unladen.chat.marks import Marks, Steps
from unladen.chat.python_tag import CODE_TOOLS, read_code
from unladen.chat.reader import Reader
from unladen.chat.reasoning import ReasoningMarks
from unladen.chat.tools.base import Dialect

_NEXT = ">>>"
_ALL = "all"
"""The recipient of text for the user."""
_ENDS = Marks([_NEXT])


class Functionary32(Dialect):
    """``>>>NAME`` and, on the next line, JSON; the prompt ends in ``>>>``."""

    name = "functionary_3_2"
    signs = (">>>all", "recipient")
    stops = ("<|eot_id|>",)
    default_prompt = _NEXT

    def read(self, r: Reader, families: Sequence[ReasoningMarks],
             family: ReasoningMarks | None) -> Steps[None]:
        """See :meth:`Dialect.read`. Text without a recipient is for the user."""
        tape = r.tape
        if r.prompt.endswith(_NEXT) or (yield from tape.optional(_NEXT)):
            yield from self._part(r)
        while (yield from tape.until(_ENDS, r.write)):
            if (yield from tape.ahead(self._headers(r), skip=len(_NEXT)))[1]:
                r.take(_NEXT)
                yield from self._part(r)
            else:
                r.write(tape.take(len(_NEXT)))

    def called(self, tools: Schemas, is_required: bool, marks: tuple[str, ...]
               ) -> CalledForm | None:
        """See :meth:`Dialect.called`. An answer that needn't call is left as it is: text would be
        for "all", which begins like a name."""
        if not is_required:
            return None
        calls = tuple(ToolText(name, f"{name}\n", f"{name}\n", "", schema)
                      for name, schema in tools.items())
        return CalledForm(calls, separator=_NEXT, is_required=True, marks=marks)

    def _headers(self, r: Reader) -> list[str]:
        """The lines that may follow ``>>>``."""
        names = [*r.tools.schemas, "python"] if r.allows_calls else []
        return [f"{name}\n" for name in (_ALL, *names)]

    def _part(self, r: Reader) -> Steps[None]:
        """Read a recipient and, where it is a tool, the call."""
        n, header = yield from r.tape.ahead(self._headers(r))
        if header == f"{_ALL}\n":
            r.tape.take(n)
            r.answer.content.resume()
        elif header:
            yield from r.attempt(lambda: self._call(r))

    def _call(self, r: Reader) -> Steps[None]:
        yield from r.tape.blank()
        name = yield from r.tape.word(NAME, 256)
        yield from r.tape.blank()
        is_object = (yield from r.tape.ahead(["{"]))[1]
        if name in CODE_TOOLS and not is_object:
            yield from read_code(r, name, _ENDS)
            return
        if is_object:
            r.begin_call(name)
        yield from r.object(r.answer.arguments)
        r.finish_call()
