"""The language of an answer that may call tools: text, and calls whose arguments follow schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import shown
from unladen.sample.constrain.language import TEXT, Grammars, Language


@dataclass(frozen=True, eq=False)
class Call:
    """One tool's calls: the text ``begin``, which starts with the mark ``trigger``, then
    ``arguments``, then ``end``."""

    trigger: str
    begin: str
    arguments: Language
    end: str = ""


@dataclass(frozen=True, eq=False)
class Calls(Language):
    """Text with calls in it.

    Where text is free, a ``trigger`` always begins a call. Special tokens of the vocabulary are
    found in all texts here and written as these tokens; free text has none but ``marks``.

    * ``calls``: the calls that may be made.
    * ``opening``, ``separator``, ``closing``: texts before the first call, between two, after the
      last. An ``opening`` is the trigger of the first call.
    * ``required``: there is at least one call.
    * ``parallel``: there may be several calls.
    * ``has_text``: there may be free text before the first call, and around calls without an
      ``opening``. False: the answer begins with a call, or with nothing.
    * ``marks``: names of special tokens that free text may have.
    """

    calls: Sequence[Call]
    opening: str = ""
    separator: str = ""
    closing: str = ""
    required: bool = False
    parallel: bool = True
    has_text: bool = True
    marks: Sequence[str] = ()

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """One grammar; the arguments have their own."""
        self._check()
        lines = [TEXT]
        text = "TEXT?"
        if self.marks:
            names = " | ".join(grammars.literal(mark) for mark in self.marks)
            lines.append(f"text: (TEXT | {names})*")
            text = "text"
        triggers = self._triggers
        if self.opening and self.parallel:
            lines.append("call: " + " | ".join(
                self._written(call.begin, call, grammars) for call in self.calls))
        first = []
        for i, trigger in enumerate(triggers):
            calls = self.calls if self.opening else [
                call for call in self.calls if call.trigger == trigger]
            lines.append(f"rest{i}: " + " | ".join(
                self._written(call.begin if self.opening else call.begin[len(trigger):], call,
                              grammars) for call in calls))
            begin = f"begin{i}" if self.has_text else grammars.literal(trigger)
            if self.has_text:
                lines.append(self._free(f"begin{i}", trigger, grammars))
            first.append(f"{begin} rest{i}")
        lines.append("first: " + " | ".join(first))
        return {"lark_grammar": "\n".join([f"start: {self._start(text, grammars)}", *lines])}

    @property
    def ways_on(self) -> Sequence[str]:
        """What begins a call, where there has to be one behind free text."""
        return self._triggers if self.required and self.has_text else ()

    @property
    def must_be_whole(self) -> bool:
        """Whether there has to be a call."""
        return self.required

    @property
    def is_hurried(self) -> bool:
        """Whether there has to be a call. One that the model chose to make breaks off: with other
        arguments than the model would have written it would do something else."""
        return self.required

    @property
    def _triggers(self) -> Sequence[str]:
        return [self.opening] if self.opening else list(
            dict.fromkeys(call.trigger for call in self.calls))

    def _start(self, text: str, grammars: Grammars) -> str:
        separator, closing = grammars.literal(self.separator), grammars.literal(self.closing)
        if self.opening:
            several = f" ({separator} call)*" if self.parallel else ""
            return self._or_none(f"first{several} {closing}", text)
        if not self.parallel:
            return self._or_none(f"first {closing}", text)
        if self.has_text:
            return f"first{'+' if self.required else '*'} {text}"
        return self._or_none(f"first ({separator} first)* {closing}", text)

    def _or_none(self, calls: str, text: str) -> str:
        if self.required:
            return calls
        return f"{calls} | {text}" if self.has_text else f"({calls})?"

    def _free(self, rule: str, trigger: str, grammars: Grammars) -> str:
        """A rule for free text up to a trigger."""
        if not self.marks:
            return grammars.until(rule, trigger)
        lead = " | ".join(grammars.literal(mark) for mark in self.marks)
        if grammars.special_in(trigger) is None:
            return (f"{rule}: (TEXT? ({lead}))* {rule}_end\n"
                    + grammars.until(f"{rule}_end", trigger))
        return f"{rule}: (TEXT | {lead})* {grammars.literal(trigger)}"

    def _written(self, begin: str, call: Call, grammars: Grammars) -> str:
        """``call`` with ``begin`` in place of its own beginning."""
        return " ".join([grammars.literal(begin), grammars.name_of(call.arguments),
                         grammars.literal(call.end)])

    def _check(self) -> None:
        if not self.calls:
            raise InvalidArgument("there must be at least one tool that can be called")
        for call in self.calls:
            if not self.opening and not (call.trigger and call.begin.startswith(call.trigger)):
                raise InvalidArgument(f"a call must begin with its trigger {shown(call.trigger)}, "
                                      f"got {shown(call.begin)}")
