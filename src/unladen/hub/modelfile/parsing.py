"""Parses Modelfiles. An error names the line of the instruction that is wrong."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from unladen.errors import ModelfileError, ModelNotFound
from unladen.hub.modelfile.document import Modelfile, Value
from unladen.hub.modelfile.values import (
    ALIASES,
    KEY_AND_VALUE,
    ONE_VALUE,
    WITHOUT_EFFECT,
    Read,
    Unfit,
)
from unladen.paths import problem_of

MAX_BYTES: Final = 64 << 20
"""Bytes of a Modelfile at most. Licenses and templates are long, but not that long."""
_BLANKS: Final = " \t"
_QUOTED: Final = 40
"""Characters of a wrong word that an error quotes at most."""
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
                (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class _Raw:
    """An instruction before its value is checked. ``rest``: what follows its name on its line."""

    line: int
    name: str
    rest: str


def read(path: str | os.PathLike[str]) -> Modelfile:
    """The Modelfile at ``path``, in UTF-8, or in UTF-16 with a byte order mark.

    Raises :class:`ModelNotFound` where it can't be read, and :class:`ModelfileError` where it is
    malformed.
    """
    name = os.fspath(path)
    if problem := problem_of(name):
        raise ModelNotFound(f"{name} {problem.what}", hint=(
            "name a Modelfile, a text with a line FROM MODEL: unladen create NAME -f FILE"))
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelNotFound(f"{name} can't be read: {error.strerror}", hint="check the disk"
                            ) from error
    if len(data) > MAX_BYTES:
        raise ModelfileError(f"{name} has more than {MAX_BYTES} bytes",
                             hint="a Modelfile is a text; name the model's file after FROM")
    bom, encoding = next(((b, e) for b, e in _BOMS if data.startswith(b)), (b"", "utf-8"))
    try:
        return parse(data[len(bom):].decode(encoding))
    except UnicodeDecodeError as error:
        line = data[:error.start].count(b"\n") + 1
        raise ModelfileError(f"{name} isn't text in {encoding.upper()}", line=line,
                             hint="save it as UTF-8") from error


def parse(text: str) -> Modelfile:
    """The Modelfile with this ``text``. Raises :class:`ModelfileError`."""
    found: list[tuple[str, Value]] = []
    warnings: list[str] = []
    drafts: list[tuple[int, str]] = []
    for line, name, value in _instructions(text.removeprefix("\ufeff")):
        found.append((name, value))
        if name == "PARAMETER" and value[0] in WITHOUT_EFFECT:
            warnings.append(f"Modelfile, line {line}: {value[0]} has no effect any more")
        if name == "DRAFT" and isinstance(value, str):
            drafts.append((line, value))
    sources = [value for name, value in found if name == "FROM"]
    if not sources:
        raise ModelfileError("there is no FROM", hint="begin with FROM and a model's name or path")
    for line, value in drafts:
        if value in sources:
            raise ModelfileError(f"DRAFT {value} is the model of FROM itself", line=line,
                                 hint="name a smaller model, or leave DRAFT out")
    return Modelfile(tuple(found), tuple(warnings))


def _instructions(text: str) -> Iterator[tuple[int, str, Value]]:
    """(line, name, value) of each instruction."""
    # Every second piece is a line's end. Other characters that Python takes for line ends are text.
    pieces = re.split(r"(\r\n|\r|\n)", text)
    at = 0
    while at < len(pieces):
        line = at // 2 + 1
        content = pieces[at].strip(_BLANKS)
        at += 2
        if not content or content.startswith("#"):
            continue
        raw = _named(line, content)
        if raw.name in KEY_AND_VALUE:
            key, rest = _word(raw.rest)
            _check_key(raw, key)
            value, at = _value(raw, rest, pieces, at, f"{raw.name} {key}")
            yield line, raw.name, (key, _checked(raw, key, value))
        else:
            value, at = _value(raw, raw.rest, pieces, at, raw.name)
            yield line, raw.name, _checked(raw, None, value)


def _named(line: int, content: str) -> _Raw:
    word, rest = _word(content)
    name = ALIASES.get(word.upper(), word.upper())
    if name in ONE_VALUE or name in KEY_AND_VALUE:
        return _Raw(line, name, rest)
    raise ModelfileError(f"unknown instruction {_quoted(word)}", line=line,
                         hint=_near(name, [*ONE_VALUE, *KEY_AND_VALUE])
                         or "a text of several lines stands between three quotes")


def _word(text: str) -> tuple[str, str]:
    """The first word of ``text``, and what follows the blanks after it."""
    match = re.match(r"[^ \t]*", text)
    assert match is not None
    return match[0], text[match.end():].lstrip(_BLANKS)


def _check_key(raw: _Raw, key: str) -> None:
    known: Mapping[str, Read] = KEY_AND_VALUE[raw.name]
    if key in known or (raw.name == "PARAMETER" and key in WITHOUT_EFFECT):
        return
    words = {"PARAMETER": "a parameter's name", "MESSAGE": "a role"}
    what = words.get(raw.name, "one of its words")
    got = f", got {_quoted(key)}" if key else ", got nothing"
    raise ModelfileError(f"after {raw.name} there must be {what}{got}", line=raw.line,
                         hint=_near(key, list(known)) or f"there are {', '.join(known)}")


def _value(raw: _Raw, first: str, pieces: list[str], at: int, name: str) -> tuple[str, int]:
    """The value that begins with ``first``, and the piece after its last line."""
    quotes = next((q for q in ('"""', '"') if first.startswith(q)), "")
    if not quotes:
        if not first:
            raise ModelfileError(f"{name} has no value", line=raw.line,
                                 hint=f"write it on the same line; an empty one is {name} \"\"")
        return first, at
    lines, n = [first], len(first)
    # ``first`` lost the blanks at its end; they belong to the value if it goes on.
    whole_first = pieces[at - 2]
    while not (n >= 2 * len(quotes) and lines[-1].rstrip(_BLANKS).endswith(quotes)):
        if at >= len(pieces):
            raise ModelfileError(f"the quotes of {name} never close", line=raw.line, hint=(
                f"end the text with {quotes} at the end of a line"))
        if len(lines) == 1:
            lines[0] += whole_first[len(whole_first.rstrip(_BLANKS)):]
        lines += [pieces[at - 1], pieces[at]]
        n += len(pieces[at - 1]) + len(pieces[at])
        at += 2
    return "".join(lines).rstrip(_BLANKS)[len(quotes):-len(quotes)], at


def _checked(raw: _Raw, key: str | None, value: str) -> str:
    """``value`` as it is, if the instruction takes it."""
    reads = ONE_VALUE[raw.name] if key is None else KEY_AND_VALUE[raw.name].get(key)
    try:
        if reads is not None:  # None: a parameter without effect
            reads(value)
    except Unfit as error:
        name = f"{raw.name} {key}" if key else raw.name
        raise ModelfileError(f"{name} {error}, got {_quoted(value)}", line=raw.line,
                             hint="correct this value") from None
    return value


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")


def _near(word: str, known: list[str]) -> str:
    near = get_close_matches(word[:_QUOTED], known, n=1)
    return f"did you mean {near[0]}?" if near else ""
