"""Reads what follows ``<|python_tag|>``: a call, or code for a tool that runs Python."""

from __future__ import annotations

import re

from unladen.chat.forms import JsonCalls
from unladen.chat.json_calls import read_json_calls
from unladen.chat.json_text import quoted
from unladen.chat.marks import Ended, Marks, NotACall, Steps
from unladen.chat.python_calls import read_python_arguments
from unladen.chat.reader import Reader

CODE_TOOLS = ("python", "code_interpreter", "ipython", "python_interpreter")
"""Names of tools that run Python code."""
_WORD = re.compile(r"[\w.]{0,256}")
_NOTHING = Marks(())


def code_tool(r: Reader, default: str = "") -> str:
    """The tool that was offered for code, or ``default``."""
    return next((name for name in CODE_TOOLS if name in r.tools), default)


def code_key(r: Reader, tool: str) -> str:
    """The argument of ``tool`` that takes the code."""
    properties = r.tools.schemas.get(tool, {}).get("properties")
    keys = [key for key in properties if r.tools.types(tool, key) == {"string"}] if isinstance(
        properties, dict) else []
    return keys[0] if len(keys) == 1 else "code"


def read_python_tag(r: Reader, default: str) -> Steps[None]:
    """Read a JSON call, a built-in call or code. Raises :class:`NotACall`."""
    tool = code_tool(r, default)
    starts = [f'{{"{key}"' for key in ("name", "type", "function")]
    if (yield from r.tape.ahead(starts))[1]:
        yield from read_json_calls(r, JsonCalls())
    elif tool and (yield from r.tape.ahead([f'{{"{code_key(r, tool)}"']))[1]:
        r.begin_call(tool)
        yield from r.object(r.answer.arguments)
        r.finish_call()
    else:
        word = yield from r.tape.word(_WORD, 256, may_end=True)
        if word.endswith(".call") and (yield from r.tape.ahead(["("]))[1]:
            yield from read_python_arguments(r, word.removesuffix(".call"))
        elif tool:
            yield from read_code(r, tool, _NOTHING, word)
        else:
            raise NotACall("it is code, and no tool for it was offered")


def read_code(r: Reader, tool: str, ends: Marks, start: str = "") -> Steps[None]:
    """Read code up to one of ``ends`` or the end of the text, as the argument of ``tool``.
    ``start``: the part of the code that was taken already."""
    r.begin_call(tool)
    r.answer.arguments(f'{{"{quoted(code_key(r, tool))}": "{quoted(start)}')
    mark = yield from r.tape.until(ends, lambda text: r.answer.arguments(quoted(text)))
    if not mark and r.is_cut:
        raise Ended
    r.answer.arguments('"}')
    r.finish_call()
