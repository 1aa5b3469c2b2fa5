"""What a dialect is: marks around reasoning, answer and calls, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from unladen.chat.called import CalledForm, Schemas, called_form
from unladen.chat.calls import read_calls, read_section
from unladen.chat.forms import Arguments, CallForm, JsonCalls, Name
from unladen.chat.marks import WHITE, Marks, Steps
from unladen.chat.reader import Reader
from unladen.chat.reasoning import ReasoningMarks


class Dialect:
    """How a family of models writes an answer. A subclass is a file in this folder."""

    name: ClassVar[str]
    """What the dialect is called."""
    signs: ClassVar[tuple[str, ...]] = ()
    """Texts that a template of this dialect has, all of them."""
    forms: tuple[CallForm, ...] = ()
    """How calls are written. The first is the one that a constraint makes a model write."""
    reasoning: tuple[ReasoningMarks, ...] = ()
    """Marks of reasoning, beside those that the template's text names."""
    wrappers: tuple[tuple[str, str], ...] = ()
    """(opening, closing) marks around the answer that aren't part of it."""
    stops: tuple[str, ...] = ()
    """Texts of tokens that end a turn, beside the file's own."""
    default_prompt: ClassVar[str] = ""
    """How a prompt of this dialect ends, where none is known."""
    id_length: ClassVar[int | None] = None
    """Letters and digits that an id must have in this dialect, and nothing else."""

    def read(self, r: Reader, families: Sequence[ReasoningMarks],
             family: ReasoningMarks | None) -> Steps[None]:
        """Read a whole answer. ``families``: marks of reasoning that count; ``family``: those of
        the reasoning that the prompt opened."""
        yield from _MarkedAnswer(r, self, families, family).read()

    def called(self, tools: Schemas, is_required: bool, marks: tuple[str, ...]
               ) -> CalledForm | None:
        """How a constraint makes the model call ``tools``, of which there is one at least;
        parameters and result as those of :func:`unladen.chat.called.called_form`."""
        return called_form(self.forms[0], tools, is_required, marks) if self.forms else None


class _MarkedAnswer:
    """Reads an answer in which marks begin and end everything that isn't its text."""

    def __init__(self, r: Reader, dialect: Dialect, families: Sequence[ReasoningMarks],
                 family: ReasoningMarks | None) -> None:
        self._r, self._family = r, family
        forms = dialect.forms if r.allows_calls else ()
        self._triggers = {mark: form for form in reversed(forms) for mark in self._marks_of(form)}
        self._opens = {f.opening: f for f in reversed(families)}
        self._closes = {f.closing: f for f in families}
        self._wrappers = {_wrapper(mark): is_open for pair in dialect.wrappers
                          for mark, is_open in zip(pair, (True, False), strict=True)}
        self._inside = any(not opening for opening, _ in dialect.wrappers)
        self._left = False
        self._unmarked = [form for form in forms if not form.marks or (
            form.at_start and r.prompt.rstrip(WHITE).endswith(form.begin.strip(WHITE)))]
        self._marks = Marks([*self._triggers, *self._opens, *self._closes, *self._wrappers])

    def _marks_of(self, form: CallForm) -> list[str]:
        """The marks at which calls of ``form`` begin; with the names of tools where only those
        tell a call from text."""
        if form.needs_offered and not form.has_section and isinstance(form.parts[0], Name):
            return [mark + name for mark in form.marks for name in self._r.tools.schemas]
        return [*form.marks]

    def read(self) -> Steps[None]:
        r = self._r
        r.is_reasoning = self._family is not None
        if not r.is_reasoning:
            yield from self._start()
        while mark := (yield from r.tape.until(self._marks, r.write)):
            if form := self._triggers.get(mark):
                yield from self._calls(form)
            elif r.is_reasoning:
                yield from self._in_reasoning(mark)
            else:
                yield from self._in_content(mark)

    def _calls(self, form: CallForm) -> Steps[None]:
        yield from self._r.attempt(partial(read_section, self._r, form))

    def _in_reasoning(self, mark: str) -> Steps[None]:
        r = self._r
        if self._closes.get(mark) and self._closes[mark].closing == (
                self._family.closing if self._family else mark):
            r.take(mark)
            r.is_reasoning, self._family = False, None
            self._inside = self._inside or self._wrappers.get(mark, False)
            r.answer.content.part()
            r.answer.content.start()
            yield from self._start()
        elif mark in self._opens and r.answer.reasoning.is_blank:
            r.take(mark)
        else:
            r.write(r.tape.take(len(mark)))

    def _in_content(self, mark: str) -> Steps[None]:
        r = self._r
        is_blank = r.answer.content.is_blank
        if mark in self._opens and is_blank:
            r.take(mark)
            r.is_reasoning, self._family = True, self._opens[mark]
            r.answer.reasoning.resume()
        elif mark in self._closes and is_blank and mark not in self._wrappers:
            r.take(mark)
            r.answer.content.start()
        elif mark in self._wrappers and self._wraps(mark, is_blank):
            r.take(mark)
            self._inside = self._wrappers[mark]
            self._left = not self._inside
            r.answer.content.part()
            yield from self._start()
        else:
            r.write(r.tape.take(len(mark)))

    def _wraps(self, mark: str, is_blank: bool) -> bool:
        """Whether ``mark`` stands around the answer and is no part of it."""
        return (is_blank or self._left) if self._wrappers[mark] else self._inside

    def _start(self) -> Steps[None]:
        """At the start of an answer a call may stand without a mark."""
        r = self._r
        for form in self._unmarked:
            while (yield from self._may_begin(form)):
                if not (yield from r.attempt(partial(read_calls, r, form), is_quiet=True)):
                    return
                yield from r.tape.optional(form.separator)

    def _may_begin(self, form: CallForm) -> Steps[bool]:
        if not self._r.answer.content.is_blank:
            return False
        if isinstance(form.parts[0], JsonCalls | Arguments):
            return bool((yield from self._r.tape.ahead(["{", "["]))[1])
        names = [*self._r.tools.schemas] if isinstance(form.parts[0], Name) else []
        return bool((yield from self._r.tape.ahead(names))[1])


def _wrapper(mark: str) -> str:
    """``mark`` without white space, unless it is a mere word: then its line break tells it."""
    bare = mark.strip(WHITE)
    return mark.lstrip(WHITE) if bare.isalnum() else bare
