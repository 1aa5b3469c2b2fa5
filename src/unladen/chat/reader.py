"""What a dialect reads from and writes to while it parses one answer."""

from __future__ import annotations

from collections.abc import Callable

from unladen.chat.answer import Answer
from unladen.chat.json_text import JSON, Syntax, ValueScanner
from unladen.chat.marks import Ended, NotACall, Steps, Tape
from unladen.chat.values import Tools


class Reader:
    """The state of one answer: text that arrives, the answer so far, and what was offered.

    tools: the tools that were offered. allows_calls: whether calls may be read at all.
    is_cut: at the end of the text, whether generation was cut off there.
    """

    def __init__(self, answer: Answer, tools: Tools, prompt: str, allows_calls: bool) -> None:
        self.tape = Tape()
        self.answer = answer
        self.tools = tools
        self.prompt = prompt
        self.allows_calls = allows_calls
        self.is_reasoning = False
        self.is_cut = False

    def write(self, text: str) -> None:
        """``text`` belongs to the reasoning or to the answer."""
        (self.answer.reasoning if self.is_reasoning else self.answer.content).write(text)

    def take(self, mark: str) -> None:
        """Take ``mark``, which is known to come next; it is no text of the answer."""
        self.tape.take(len(mark))

    def attempt(self, steps: Callable[[], Steps[None]], is_quiet: bool = False) -> Steps[bool]:
        """Read a call, or several, with ``steps``. If the text turns out to be something else, it
        is written as text from the last complete call on. Returns whether all was understood.
        ``is_quiet``: text that isn't a call is worth a note only after a call began."""
        flow = self.answer.reasoning if self.is_reasoning else self.answer.content
        self.tape.forget()
        try:
            yield from steps()
        except NotACall as error:
            if self.tape.ended and self.is_cut and self.answer.keep_cut_call():
                if isinstance(error, Ended):
                    self.tape.rest()  # what breaks off belongs to the call
                return True
            text = self.tape.taken
            self.answer.drop_call("" if is_quiet and not self.answer.has_open_call
                                  else f"{_start(text)} is no call: {error}")
            flow.write(text)
            return False
        finally:
            self.tape.forget()
        return True

    def finish_call(self, call_id: str = "") -> None:
        """The open call is complete, and its text is no text of the answer."""
        self.answer.end_call(call_id)
        self.tape.forget()

    def begin_call(self, name: str, call_id: str = "", *, is_held: bool = False,
                   needs_offered: bool = False) -> None:
        """A call of ``name`` begins. Raises :class:`NotACall` where it may not."""
        if not name:
            raise NotACall("the name of the tool is empty")
        if needs_offered and name not in self.tools:
            raise NotACall(f"no tool {name[:40]!r} was offered")
        self.answer.begin_call(name, call_id, is_held=is_held)

    def value(self, emit: Callable[[str], object], syntax: Syntax = JSON) -> Steps[None]:
        """Take one value in ``syntax`` and give its JSON text to ``emit``. Raises
        :class:`NotACall`."""
        scanner = ValueScanner(syntax)
        while True:
            self.tape.run(scanner.scan)
            emit(scanner.drain())
            if scanner.done:
                return
            if self.tape.ended and self.is_cut and syntax is JSON:
                emit(self.tape.rest())  # a number, a word or an escape that breaks off
            yield from self.tape.wait()

    def object(self, emit: Callable[[str], object], syntax: Syntax = JSON) -> Steps[None]:
        """As :meth:`value`, for a value that has to be an object."""
        yield from self.tape.blank()
        if (yield from self.tape.peek()) != "{":
            raise NotACall("the arguments aren't an object")
        yield from self.value(emit, syntax)


def _start(text: str) -> str:
    """The beginning of ``text``, to name it in a message."""
    text = " ".join(text.split())
    return repr(text if len(text) <= 40 else text[:40] + "...")
