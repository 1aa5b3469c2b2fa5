"""Learns a dialect from what a template writes: calls with marker words show what is around them.

No name of a family is needed. A call is written as JSON that holds the name, as JSON behind a name,
or as arguments one by one; everything else around it is marks, whatever they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from unladen.chat.forms import (
    Again,
    CallForm,
    Id,
    Index,
    JsonCalls,
    Literal,
    Name,
    Part,
)
from unladen.chat.marks import WHITE
from unladen.chat.probing import (
    IDS,
    KEYS,
    NAMES,
    TOKEN,
    VALUES,
    Call,
    Probe,
    marks_at_end,
    same_end,
    same_start,
    styles,
    whole_marks_after,
    whole_marks_before,
)
from unladen.chat.reasoning import ReasoningMarks
from unladen.chat.tools._bodies import Body, find_body, same_body
from unladen.chat.tools.base import Dialect

_NAME, _ID, _INDEX, _BODY = "\x01", "\x02", "\x03", "\x05"
"""Stand for the name, the id, the number and the arguments of a call."""
_HOLE = re.compile("[\x01\x02\x03]")
_NUMBER = re.compile(r"\d{1,6}")
MAX_MARK = 400
"""Characters that what stands around a call may have; more is no dialect."""
_CALL = Call({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]})
_TWO = (Call({KEYS[0]: VALUES[0]}), Call({KEYS[1]: VALUES[1]}, NAMES[1], IDS[1]))


class LearnedDialect(Dialect):
    """The dialect of one template, made by :func:`learn`."""

    name = "learned"

    def __init__(self, *forms: CallForm, wrappers: tuple[tuple[str, str], ...] = ()) -> None:
        self.forms = forms
        self.wrappers = wrappers


def learn(probe: Probe, prompt_end: str, families: Sequence[ReasoningMarks] = ()
          ) -> CallForm | None:
    """The form of calls in the template of ``probe``, whose prompts end in ``prompt_end``; None if
    it writes none, or in a way that isn't understood. ``families``: marks of reasoning, which
    aren't part of a call."""
    plain = probe.said(with_tools=True)
    for styled in styles(probe) if plain is not None else ():
        text = styled.called(_CALL) or ""
        start = whole_marks_before(text, len(same_start(text, plain or "")))
        n_end = len(text) - whole_marks_after(
            text, len(text) - len(same_end(text[start:], plain or "")))
        start += _reasoning_before(text[start:], families)
        region = text[start:len(text) - n_end]
        if (body := find_body(region, _CALL, styled)) is None:
            continue
        two = styled.called(*_TWO) or ""
        is_two = two.startswith(text[:start]) and all(name in two for name in NAMES)
        edges = (text[len(same_start(text[:start], prompt_end)):start],
                 text[len(text) - n_end:])
        form = _form(region, body, two[start:len(two) - n_end] if is_two else "", prompt_end,
                     edges)
        if form is not None:
            return form
    return None


def _reasoning_before(text: str, families: Sequence[ReasoningMarks]) -> int:
    """Characters of empty reasoning at the start of ``text``."""
    white = rf"[{WHITE}]*"
    for f in families:
        opening, closing = re.escape(f.opening), re.escape(f.closing)
        if match := re.match(f"{white}(?:{opening})?{white}{closing}{white}", text):
            return match.end()
    return 0


def _form(region: str, body: Body, two: str, prompt_end: str, edges: tuple[str, str]
          ) -> CallForm | None:
    """The form of which ``region`` is a call and ``two`` are two calls ("": it can't write two).
    ``edges``: what an answer without calls has, too, before and after them."""
    before, after = _around(region, [(body.start, body.end)], [_CALL])
    sections = begin = separator = ""
    section_end = ""
    places = _two_bodies(two, body)
    if len(places) == 2:
        first, between, last = _around(two, places, [*_TWO])
        split = _split(first, between, last, has_name=body.has_name, edges=edges)
        if split is None:
            return None
        sections, begin, after, separator, section_end = split
    else:
        begin = before
        body = _listed(two, body)
    if not body.has_name and _NAME not in begin:
        return None
    if max(map(len, (begin, after, sections, separator, section_end))) > MAX_MARK:
        return None
    lead, rest = _lead(begin)
    parts = [*_parts(rest), body.part]
    cut = max((m.end() for m in _HOLE.finditer(after)), default=0)
    parts += _parts(after[:cut], seen={*begin, _NAME})
    form = CallForm(tuple(parts), begin=lead, end=after[cut:], section_begin=sections,
                    section_end=section_end, separator=separator,
                    needs_offered=len(re.findall(r"\w", lead or sections)) < 2)
    if not lead and separator and prompt_end.rstrip(WHITE).endswith(separator.strip(WHITE)):
        return replace(form, begin=separator, separator="", at_start=True, needs_offered=True)
    return form


def _two_bodies(two: str, body: Body) -> list[tuple[int, int]]:
    """Where the two bodies in ``two`` are; none if a list holds both calls."""
    places: list[tuple[int, int]] = []
    for call in _TWO if two else ():
        place = same_body(two, places[-1][1] if places else 0, call, body)
        if place is None:
            return []
        places.append(place)
    return places


def _listed(two: str, body: Body) -> Body:
    """``body`` with what ``two`` calls show of a list."""
    part = body.part
    if isinstance(part, JsonCalls) and part.opening:
        ends = [m.end() for m in re.finditer(re.escape(VALUES[0]) + '[^{]*', two)]
        if ends and (gap := re.search(r"\}(,\s*)$", two[:ends[0]])):
            return replace(body, part=replace(part, separator=gap[1]))
    return body


def _around(text: str, places: list[tuple[int, int]], calls: list[Call]) -> tuple[str, ...]:
    """What stands around the bodies, with names and ids as holes."""
    pieces, at = [], 0
    for start, end in [*places, (len(text), len(text))]:
        piece = text[at:start]
        for call in calls:
            piece = piece.replace(call.name, _NAME).replace(call.id, _ID)
        pieces.append(piece)
        at = end
    return tuple(pieces)


def _split(before: str, between: str, after: str, has_name: bool, edges: tuple[str, str]
           ) -> tuple[str, str, str, str, str] | None:
    """(section begin, begin, end, separator, section end); None if that can't be told."""
    if max(map(len, (before, between, after))) > 2 * MAX_MARK:
        return None
    if len(more := _begin(edges[0] + before, between).lstrip(WHITE)) > len(before):
        before = more  # also an answer without calls begins with the mark of a call
    begin = _begin(before, between)
    for number in {*map(int, _NUMBER.findall(before))}:
        counted = (_counted(before, number), _counted(between, number, number + 1),
                   _counted(after, number + 1))
        if len(_begin(*counted[:2])) > len(begin):
            before, between, after = counted
            begin = _begin(before, between)
    if not has_name and _NAME not in begin:
        return None
    rest = between[:len(between) - len(begin)]
    behind = after + edges[1]
    end = rest[:_whole(rest, len(same_start(rest, behind)), behind)]
    return (before[:len(before) - len(begin)], begin, end, rest[len(end):], after[len(end):])


def _begin(before: str, between: str) -> str:
    return marks_at_end(before, same_end(before, between))


def _whole(text: str, n: int, other: str) -> int:
    """``n``, or the start of the mark that it cuts in ``text`` or ``other``."""
    return min(whole_marks_before(text, n), whole_marks_before(other, n))


def _counted(text: str, *numbers: int) -> str:
    """``text`` with ``numbers``, those of calls, as holes."""
    return _NUMBER.sub(lambda m: _INDEX if int(m[0]) in numbers else m[0], text)


def _lead(begin: str) -> tuple[str, str]:
    """(the mark that begins a call, the rest): the mark goes up to the first hole or is the first
    of several."""
    begin = begin.lstrip(WHITE)
    hole = _HOLE.search(begin)
    lead = begin[:hole.start() if hole else len(begin)]
    first = TOKEN.match(lead)
    n = first.end() if first else len(lead)
    n += len(lead[n:]) - len(lead[n:].lstrip(WHITE)) if first else 0
    return lead[:n], begin[n:]


def _parts(text: str, seen: set[str] | None = None) -> list[Part]:
    """Literals and holes in ``text``. Holes that were ``seen`` come again."""
    seen = set() if seen is None else seen
    parts: list[Part] = []
    for piece in re.split(f"({_HOLE.pattern})", text):
        if piece in (_NAME, _ID) and piece in seen:
            parts.append(Again("name" if piece == _NAME else "id"))
        elif piece == _NAME:
            parts.append(Name())
        elif piece == _ID:
            parts.append(Id())
        elif piece == _INDEX:
            parts.append(Index())
        elif piece:
            parts.append(Literal(piece))
        seen.add(piece)
    return parts
