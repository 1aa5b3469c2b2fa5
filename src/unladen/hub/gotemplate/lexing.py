"""Cuts a Go template into texts and the words of its actions."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from unladen.hub.gotemplate.budget import error_at

BLANKS: Final = " \t\r\n"
"""Characters that a trim marker removes, and that separate the words of an action."""
_WORD: Final = re.compile(r"""
    (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<raw>`[^`]*`)
  | (?P<char>'(?:[^'\\\n]|\\.)*')
  | (?P<number>[+-]?\.?[0-9](?:[eE][+-]?[0-9]|[0-9A-Za-z_.])*)
  | (?P<mark>:=|[=|(),])
  | (?P<variable>\$\w*)
  | (?P<field>\.[^\W\d]\w*)
  | (?P<dot>\.)
  | (?P<name>[^\W\d]\w*)
""", re.VERBOSE)


class Word(NamedTuple):
    """A piece of a template. ``kind``: "text", "begin" and "end" of an action, or a group of
    ``_WORD``. ``spaced``: whether a blank stands before it."""

    kind: str
    text: str
    line: int
    spaced: bool = False


def words(template: str) -> Iterator[Word]:
    """The pieces of ``template``. Raises :class:`~unladen.errors.TemplateError` for an action that
    doesn't close or has a character that no action may have."""
    at, line, trims = 0, 1, False
    while at < len(template):
        opens = template.find("{{", at)
        end = len(template) if opens < 0 else opens
        text = template[at:end]
        line_of_text = line
        line += text.count("\n")
        if trims:
            text = text.lstrip(BLANKS)
        if opens < 0:
            if text:
                yield Word("text", text, line_of_text)
            return
        at = opens + 2
        if template[at:at + 1] == "-" and template[at + 1:at + 2] in tuple(BLANKS):
            text, at = text.rstrip(BLANKS), at + 2
        if text:
            yield Word("text", text, line_of_text)
        if template.startswith("/*", at):
            at, trims, line = _comment(template, at, line)
        else:
            yield Word("begin", "", line)
            at, trims, line = yield from _action(template, at, line)


def _comment(template: str, at: int, line: int) -> tuple[int, bool, int]:
    """Where the comment at ``at`` ends, whether it trims, and the line there."""
    close = template.find("*/", at)
    if close < 0:
        raise error_at(line, "a comment doesn't close")
    end = close + 2
    line_after = line + template.count("\n", at, end)
    if template.startswith("}}", end):
        return end + 2, False, line_after
    if template[end:end + 1] in tuple(BLANKS) and template.startswith("-}}", end + 1):
        return end + 4, True, line_after + template.count("\n", end, end + 1)
    raise error_at(line, "a comment must fill its action")


def _action(template: str, at: int, line: int) -> Generator[Word, None, tuple[int, bool, int]]:
    """Yields the words of the action whose first character is at ``at``; returns as
    :func:`_comment` does."""
    first = line
    while True:
        start = at
        while at < len(template) and template[at] in BLANKS:
            line += template[at] == "\n"
            at += 1
        spaced = at > start
        if spaced and template.startswith("-}}", at):
            yield Word("end", "}}", line, spaced)
            return at + 3, True, line
        if template.startswith("}}", at):
            yield Word("end", "}}", line, spaced)
            return at + 2, False, line
        if at >= len(template):
            raise error_at(first, "an action doesn't close: }} is missing")
        match = _WORD.match(template, at)
        if match is None:
            raise error_at(line, f"unexpected {template[at]!r} in an action")
        assert match.lastgroup is not None
        yield Word(match.lastgroup, match[0], line, spaced)
        line += match[0].count("\n")
        at = match.end()
