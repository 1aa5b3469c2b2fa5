"""gpt-oss (harmony): messages in channels; a call is a message to ``functions.NAME``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unladen.chat.called import CalledForm, Schemas, ToolText
from unladen.chat.marks import Marks, NotACall, Steps
from unladen.chat.python_tag import read_code
from unladen.chat.reader import Reader
from unladen.chat.reasoning import ReasoningMarks
from unladen.chat.tools.base import Dialect

_START, _CHANNEL, _MESSAGE, _END = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
_HEADER_ENDS = Marks([_MESSAGE])
_BODY_ENDS = Marks([_END, "<|call|>", "<|return|>", _START, _CHANNEL])
_FIRST = Marks([_START, _CHANNEL, _MESSAGE, " to="])
_TO = re.compile(r"to=([^\s<]+)")
_NAMED = re.compile(r"<\|channel\|>\s*(\w+)")
_TO_TOOL = " to=functions."
MAX_HEADER = 512
"""Characters that a message's header may have."""
ANALYSIS = "analysis"
"""The channel for reasoning."""


class GptOss(Dialect):
    """``<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{..}``."""

    name = "gpt_oss"
    signs = ("<|channel|>", "<|message|>", "<|start|>")
    stops = ("<|return|>", "<|call|>")
    reasoning = (ReasoningMarks("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),)
    default_prompt = "<|start|>assistant"

    def read(self, r: Reader, families: Sequence[ReasoningMarks],
             family: ReasoningMarks | None) -> Steps[None]:
        """See :meth:`Dialect.read`. A header that isn't understood is text."""
        start = r.prompt[max(r.prompt.rfind(_START), 0):] if _START in r.prompt else ""
        if _MESSAGE in start and _END not in start:
            yield from self._body(r, start.partition(_MESSAGE)[0])
        else:
            yield from self._header(r, "" if _MESSAGE in start else start)
        while (yield from r.tape.until(_FIRST_MARKS, r.write)):
            yield from self._header(r, "")

    def called(self, tools: Schemas, is_required: bool, marks: tuple[str, ...]
               ) -> CalledForm | None:
        """See :meth:`Dialect.called`. The recipient stands behind the role, as the template writes
        it; one that comes behind the channel leads to the same call."""
        behind = f"{_CHANNEL}commentary json{_MESSAGE}"
        calls = tuple(ToolText(name, _TO_TOOL, f"{_TO_TOOL}{name}{behind}", "", schema)
                      for name, schema in tools.items())
        return CalledForm(calls, is_required=is_required, is_parallel=False,
                          marks=(_START, _CHANNEL, _MESSAGE, _END, "<|constrain|>"))

    def _header(self, r: Reader, start: str) -> Steps[None]:
        """Read a header, of which the prompt has ``start``, and the message behind it."""
        if not (yield from r.tape.ahead([*_FIRST.texts, "to="]))[1]:
            r.is_reasoning = False
            return
        pieces = [start]
        ok = yield from r.attempt(lambda: self._read_header(r, pieces))
        if ok:
            yield from self._body(r, "".join(pieces))

    def _read_header(self, r: Reader, pieces: list[str]) -> Steps[None]:
        def add(text: str) -> None:
            pieces.append(text)
            if sum(map(len, pieces)) > MAX_HEADER:
                raise NotACall("the header of a message is too long")
        if not (yield from r.tape.until(_HEADER_ENDS, add)):
            yield from r.tape.wait()
        r.take(_MESSAGE)

    def _body(self, r: Reader, header: str) -> Steps[None]:
        channel = match[1] if (match := _NAMED.search(header)) else ""
        to = match[1] if (match := _TO.search(header)) else ""
        r.is_reasoning = channel == ANALYSIS
        is_call = bool(to) and to not in ("user", "all")
        if is_call and r.allows_calls:
            r.is_reasoning = False
            yield from r.attempt(lambda: self._call(r, to.removeprefix("functions.")))
        else:
            (r.answer.reasoning if r.is_reasoning else r.answer.content).resume()
            r.write(header + _MESSAGE if is_call else "")
        mark = yield from r.tape.until(_BODY_ENDS, r.write)
        if mark and mark not in (_START, _CHANNEL):
            r.take(mark)

    def _call(self, r: Reader, name: str) -> Steps[None]:
        yield from r.tape.blank()
        if name == "python" and not (yield from r.tape.ahead(["{"]))[1]:
            yield from read_code(r, name, _BODY_ENDS)
            return
        if (yield from r.tape.peek()) == "{":
            r.begin_call(name)
        yield from r.object(r.answer.arguments)
        r.finish_call()


_FIRST_MARKS = Marks([_START, _CHANNEL])
"""What begins the next message."""
