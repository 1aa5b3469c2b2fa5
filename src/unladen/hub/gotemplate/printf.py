"""Go's ``printf`` for the verbs that templates use."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from unladen.hub.gotemplate.budget import Budget, Failed
from unladen.hub.gotemplate.values import Value, number, shown, type_name

WIDEST: Final = 10_000
"""Columns that a verb may ask for, and digits after the point."""
QUOTING: Final = 8
"""Times as long as copying a text that quoting it takes."""
_VERB: Final = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<width>\d+|\*)?(?:\.(?P<precision>\d*|\*))?(?P<verb>.|$)", re.DOTALL)


def printf(form: str, values: Sequence[Value], budget: Budget) -> str:
    """``values`` as ``form`` says. A verb that doesn't fit its value writes what is wrong, as in
    Go."""
    budget.text(len(form))
    pieces, at, used = [], 0, 0
    for match in _VERB.finditer(form):
        budget.step()
        pieces.append(form[at:match.start()])
        at = match.end()
        verb = match["verb"]
        if verb == "%":
            pieces.append("%")
        elif not verb:
            pieces.append("%!(NOVERB)")
        elif "*" in (match["width"], match["precision"]):
            raise Failed("printf takes widths as numbers only")
        elif used >= len(values):
            pieces.append(f"%!{verb}(MISSING)")
        else:
            pieces.append(_filled(_form(match), values[used], budget))
            used += 1
    pieces.append(form[at:])
    if used < len(values):
        extra = ", ".join(_typed(v, budget) for v in values[used:])
        pieces.append(f"%!(EXTRA {extra})")
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class _Form:
    """A verb with its flags."""

    verb: str
    flags: str
    width: int
    precision: int | None


def _form(match: re.Match[str]) -> _Form:
    precision = match["precision"]
    return _Form(match["verb"], match["flags"], _size(match["width"]),
                 None if precision is None else _size(precision))


def _size(digits: str | None) -> int:
    if digits and (len(digits) > 6 or int(digits) > WIDEST):
        raise Failed(f"printf asks for more than {WIDEST} columns")
    return int(digits or 0)


def _typed(value: Value, budget: Budget) -> str:
    return "<nil>" if value is None else f"{type_name(value)}={shown(value, budget)}"


def _filled(form: _Form, value: Value, budget: Budget) -> str:
    """``value`` as ``form`` says, with blanks or zeros up to its width."""
    budget.step(form.width)
    text, is_number = _text(form, value, budget)
    if text.startswith("%!"):
        return text  # a verb that doesn't fit; the value in it has the width
    missing = form.width - len(text)
    if missing <= 0:
        return text
    if "-" in form.flags:
        return text + " " * missing
    if "0" in form.flags and (form.precision is None or not is_number or form.verb in "feEgG"):
        n_sign = int(is_number and text[:1] in ("+", "-", " "))
        return text[:n_sign] + "0" * missing + text[n_sign:]
    return " " * missing + text


def _text(form: _Form, value: Value, budget: Budget) -> tuple[str, bool]:
    """``value`` without its width, and whether it is a number."""
    verb = form.verb
    if verb == "T":
        return "<nil>" if value is None else type_name(value), False
    if isinstance(value, str):
        found = _of_text(form, value, budget)
    elif isinstance(value, bool):
        found = ("true" if value else "false") if verb in "vt" else None
    elif isinstance(value, int):
        found = _of_int(form, value, budget)
    elif isinstance(value, float):
        found = _of_float(form, value)
    elif value is None:
        return "<nil>" if verb == "v" else f"%!{verb}(<nil>)", False
    else:
        found = shown(value, budget) if verb in "vs" else None
    if found is None:
        plain = _filled(dataclasses.replace(form, verb="v"), value, budget)
        return f"%!{verb}({type_name(value)}={plain})", False
    return found, isinstance(value, int | float) and not isinstance(value, bool) and verb != "q"


def _of_text(form: _Form, value: str, budget: Budget) -> str | None:
    budget.text(len(value))
    if form.precision is not None and form.verb in "sqv":
        value = value[:form.precision]
    match form.verb:
        case "s" | "v":
            return value
        case "q":
            if "#" in form.flags and "`" not in value and value.isprintable():
                return f"`{value}`"
            budget.step(QUOTING * len(value))
            return quoted(value, "+" in form.flags)
        case "x" | "X":
            digits = value.encode(errors="replace").hex()
            return digits.upper() if form.verb == "X" else digits
    return None


def _of_int(form: _Form, value: int, budget: Budget) -> str | None:
    sign = "-" if value < 0 else "+" if "+" in form.flags else " " if " " in form.flags else ""
    match form.verb:
        case "d" | "v":
            digits = str(abs(value))
        case "x" | "X" | "o" | "b":
            digits = format(abs(value), ("#" if "#" in form.flags else "") + form.verb)
        case "c" | "q" | "U":
            if not 0 <= value < 0x110000:
                value = 0xFFFD
            character = chr(value).encode(errors="replace").decode()
            return {"c": character, "q": f"'{quoted(character, '+' in form.flags)[1:-1]}'",
                    "U": f"U+{value:04X}"}[form.verb]
        case _:
            return None
    if form.precision is not None:
        budget.step(form.precision)
        digits = digits.rjust(form.precision, "0")
    return sign + digits


def _of_float(form: _Form, value: float) -> str | None:
    sign = "+" if "+" in form.flags else " " if " " in form.flags else ""
    if form.verb in ("v", "g", "G") and form.precision is None:
        text = number(value, -4, 21 if form.verb == "v" and "#" in form.flags else 6)
        return (sign if value >= 0 else "") + (text.upper() if form.verb == "G" else text)
    if form.verb in "feEgGFv":
        verb = "g" if form.verb == "v" else form.verb
        digits = 6 if form.precision is None else form.precision
        return format(value, f"{sign}.{digits}{verb}")
    return None


def quoted(text: str, is_ascii: bool = False) -> str:
    """``text`` in double quotes, as Go's ``%q`` writes it; ``is_ascii``: as ``%+q``."""
    return f'"{"".join(_escaped(character, is_ascii) for character in text)}"'


def _escaped(character: str, is_ascii: bool) -> str:
    one = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
           "\v": "\\v", '"': '\\"', "\\": "\\\\"}.get(character)
    if one is not None:
        return one
    code = ord(character)
    if character == " " or (character.isprintable() and not 0xD800 <= code < 0xE000
                            and (code < 0x80 or not is_ascii)):
        return character
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
