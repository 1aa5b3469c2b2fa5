"""Compiles a template's :class:`AnswerForm`: chooses a dialect and tries it on what the template
writes itself."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.forms import CallForm
from unladen.chat.marks import WHITE
from unladen.chat.parsing import parse_answer
from unladen.chat.probing import (
    CONTENT,
    IDS,
    KEYS,
    NAMES,
    NEXT,
    REASONING,
    TOKEN,
    VALUES,
    Call,
    Probe,
    probe_tools,
    styles,
)
from unladen.chat.reasoning import (
    THINK,
    ReasoningMarks,
    after_reasoning,
    header_of,
    named_in,
    unique,
)
from unladen.chat.tools import dialect_for
from unladen.chat.tools.base import Dialect
from unladen.chat.tools.learned import MAX_MARK, LearnedDialect, learn

_TRIALS = (
    (Call({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]}),),
    (Call({}),),
    (Call({KEYS[1]: "a \"b\" {c} [d], <e>\nf"}),),
    (Call({KEYS[0]: VALUES[0]}), Call({KEYS[1]: VALUES[1]}, NAMES[1], IDS[1])),
)
"""Calls on which a dialect is tried; the template may be unable to write some of them."""


class Plain(Dialect):
    """No calls."""

    name = "plain"


class Template(Protocol):
    """A chat template: its text, and what it makes of messages."""

    @property
    def source(self) -> str:
        """The template's text."""

    def render(self, messages: Sequence[Any], tools: Sequence[Any] | None = None, *,
               bos_token: str = "", eos_token: str = "", add_generation_prompt: bool = True,
               **variables: Any) -> str:
        """The prompt. May raise anything."""


def answer_form(template: Template, bos_token: str = "", eos_token: str = "") -> AnswerForm:
    """The form of answers under ``template``. Takes some twenty renderings, so keep it with the
    template.

    template: what it raises only means that it can't write a probe.
    bos_token, eos_token: the texts of the model's tokens.
    """
    source = template.source
    probe = Probe(functools.partial(template.render, bos_token=bos_token, eos_token=eos_token))
    known = dialect_for(source)
    own = known.reasoning if known else ()
    families = unique((*own, *named_in(source), THINK))
    prompt_end = probe.prompt_end or (known.default_prompt if known else "")
    header = header_of(probe.header or prompt_end, families)
    if (marks := _reasoning(probe, header)) is not None:
        families = unique((*own, marks, *families))
        header = header_of(probe.header or prompt_end, families)
    form = AnswerForm(known or Plain(), families, (), header, prompt_end)
    turn_end = _turn_end(probe)
    candidates = [known] if known else []
    if (calls := learn(probe, prompt_end, families)) is not None:
        candidates.append(LearnedDialect(
            calls, wrappers=_wrappers(probe, form, calls, turn_end)))
    forms = [replace(form, dialect=c, stops=_stops(probe, c, turn_end)) for c in candidates]
    return max(forms, key=lambda f: _fit(probe, f), default=replace(form, stops=turn_end))


def _reasoning(probe: Probe, header: str) -> ReasoningMarks | None:
    """The marks that the template writes around reasoning."""
    text = probe.thought()
    if text is None or header not in text:
        return None
    before, _, after = text[text.index(header) + len(header):].partition(REASONING)
    close = _first_mark(after.partition(CONTENT)[0]) or after.partition(CONTENT)[0]
    marks = ReasoningMarks(before.lstrip(WHITE), close)
    is_short = len(marks.open) + len(marks.close) <= MAX_MARK
    return marks if marks.opening and marks.closing and is_short else None


def _first_mark(text: str) -> str:
    """``text`` up to the end of its first mark and of the white space behind it."""
    match = TOKEN.search(text)
    return text[:len(text) - len(text[match.end():].lstrip(WHITE))] if match else ""


def _turn_end(probe: Probe) -> tuple[str, ...]:
    """The marks that end a turn behind an answer, or the one that begins the next turn."""
    tail = (probe.said() or "").partition(CONTENT)[2].strip(WHITE)
    if marks := [mark for mark in TOKEN.findall(tail) if not mark.startswith("</")]:
        return tuple(marks)
    if tail:
        return (tail.split()[0],)
    more = probe.said({"role": "user", "content": NEXT}) or ""
    marks = TOKEN.findall(more.partition(CONTENT)[2].partition(NEXT)[0])
    return (marks[0],) if marks else ()


def _stops(probe: Probe, dialect: Dialect, turn_end: tuple[str, ...]) -> tuple[str, ...]:
    """The marks that end a turn, also those behind calls."""
    ends = "".join(form.end + form.section_end for form in dialect.forms)
    behind: list[str] = []
    for styled in styles(probe):
        text = (styled.called(Call({KEYS[0]: VALUES[0]})) or "").rstrip(WHITE)
        marks = TOKEN.findall(text)
        own = isinstance(dialect, LearnedDialect) and not (probe.said() or "").endswith(CONTENT)
        if marks and text.endswith(marks[-1]) and (own or marks[-1] not in ends):
            behind = [marks[-1]]
        break
    behind = [mark for mark in behind if not mark.startswith("</") or mark in turn_end]
    return tuple(dict.fromkeys((*dialect.stops, *behind, *(
        mark for mark in turn_end if mark not in _between_calls(probe)))))


def _between_calls(probe: Probe) -> str:
    """What the template writes between two calls; "" if it can't write two."""
    for styled in styles(probe):
        text = styled.called(*_TRIALS[-1]) or ""
        if NAMES[1] in text:
            return text.partition(VALUES[0])[2].partition(NAMES[1])[0]
    return ""


def _wrappers(probe: Probe, form: AnswerForm, calls: CallForm, turn_end: Sequence[str]
              ) -> tuple[tuple[str, str], ...]:
    """What the template writes around an answer that isn't part of it."""
    said = probe.said() or ""
    before, _, after = said.partition(CONTENT)
    if form.header not in before:
        return ()
    before = after_reasoning(before[before.index(form.header) + len(form.header):], form.reasoning)
    after = after.rstrip(WHITE).removesuffix(turn_end[-1] if turn_end else "")
    before, after = before.lstrip(WHITE), after.strip(WHITE)
    if not 0 < len(before) + len(after) <= MAX_MARK:
        return ()
    again = calls.begin + before
    if calls.at_start and before:
        return (before, after), (again, after)
    # Where several messages make an answer, each may begin as a turn does.
    return ((before, after), (form.header, "")) if before and after else ((before, after),)


def _fit(probe: Probe, form: AnswerForm) -> tuple[bool, bool, bool]:
    """How well ``form`` reads what the template writes: (calls are right, nothing is left over,
    it isn't only learned)."""
    right, clean, n_tried = True, True, 0
    for styled in styles(probe):
        for calls in _TRIALS:
            text = styled.called(*calls)
            if text is None or any(call.name not in text for call in calls):
                continue
            n_tried += 1
            message = parse_answer(_generated(text, form), form, probe_tools())
            read = [(c.name, json.loads(c.arguments)) for c in message.tool_calls if c.is_complete]
            right = right and read == [(c.name, dict(c.arguments)) for c in calls]
            said = message.content.strip(WHITE)
            clean = clean and said in ("", styled.style.content)
        if n_tried:
            break
    return right, clean, not isinstance(form.dialect, LearnedDialect)


def _generated(text: str, form: AnswerForm) -> str:
    """The part of ``text``, an answer behind the user's words, that a model generates."""
    if text.startswith(form.prompt_end):
        text = text[len(form.prompt_end):]
    elif form.header and form.header in text:
        text = text[text.index(form.header) + len(form.header):]
    text = text.rstrip(WHITE)
    while stop := next((stop for stop in form.stops if text.endswith(stop)), ""):
        text = text.removesuffix(stop).rstrip(WHITE)
    return text
