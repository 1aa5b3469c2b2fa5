"""Reads calls that are written as Python: ``[f(a="x", b=[1]), g()]``."""

from __future__ import annotations

import re

from unladen.chat.json_text import PYTHON, quoted
from unladen.chat.marks import NotACall, Steps
from unladen.chat.reader import Reader

MAX_NAME = 256
"""Characters that a function's or an argument's name may have."""
_NAME = re.compile(r"[\w.\-]*")


def read_python_calls(r: Reader, suffix: str = "") -> Steps[None]:
    """Read a list of calls, or one call. ``suffix``: what ends the name of a function that isn't
    part of the tool's name. Raises :class:`NotACall`."""
    if not (yield from r.tape.optional("[")):
        yield from _call(r, suffix)
        return
    if (yield from r.tape.optional("]")):
        return
    while True:
        yield from _call(r, suffix)
        if not (yield from r.tape.optional(",")):
            break
        if (yield from r.tape.ahead(["]"]))[1]:
            break
    yield from r.tape.literal("]")


def _call(r: Reader, suffix: str) -> Steps[None]:
    yield from r.tape.blank()
    name = (yield from r.tape.word(_NAME, MAX_NAME)).removesuffix(suffix)
    yield from read_python_arguments(r, name)


def read_python_arguments(r: Reader, name: str) -> Steps[None]:
    """Read ``(a=1, ..)``, the arguments of a call of ``name``. Raises :class:`NotACall`."""
    yield from r.tape.literal("(")
    r.begin_call(name)
    n_read = 0
    while not (yield from r.tape.optional(")")):
        if n_read:
            yield from r.tape.literal(",")
            if (yield from r.tape.optional(")")):
                break
        yield from r.tape.blank()
        key = yield from r.tape.word(_NAME, MAX_NAME)
        if not key:
            raise NotACall("an argument has no name")
        yield from r.tape.literal("=")
        yield from r.tape.blank()
        r.answer.arguments(f'{", " if n_read else "{"}"{quoted(key)}": ')
        yield from r.value(r.answer.arguments, PYTHON)
        n_read += 1
    r.answer.arguments("}" if n_read else "{}")
    r.finish_call()
