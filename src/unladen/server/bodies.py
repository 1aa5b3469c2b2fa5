"""Reads and checks the JSON of a request. Bodies are hostile."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from unladen.server.faults import Fault
from unladen.server.settings import Settings
from unladen.server.state import State

_M = TypeVar("_M", bound=BaseModel)

SHOWN_ERRORS = 3
"""Faults of a body that its error message names."""
SMALL_BYTES: Final = 2**18
"""Bodies of more bytes are parsed in a thread, so that other requests go on between its calls."""
CLOSING_S: Final = 0.5
"""Seconds between two looks whether the server ends, while a body arrives."""
SHOWN_PLACE: Final = 100
"""Characters of the place of a fault that a message shows. A body can have long names."""
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ROUND: Final = bytes.maketrans(b"[]{}", b"()()")
_QUOTES_OF_VALUE: Final = 4
"""Quotation marks that one value of an object can have: two of its name, two of its text."""


async def read_json(request: Request, state: State) -> Any:
    """The JSON of the body. Raises a ``Fault`` for one that is too large, too slow, nested too
    deeply, or isn't JSON, and where the server ends before it is there."""
    text = await _read_unless_closing(request, state)
    if len(text) > SMALL_BYTES:
        return await asyncio.to_thread(parsed, text, state.settings)
    return parsed(text, state.settings)


def parsed(text: bytes, settings: Settings) -> Any:
    """The JSON ``text``. Raises a ``Fault`` where it isn't JSON, or over the ``settings``'s
    limits."""
    text = text.removeprefix(b"\xef\xbb\xbf")  # some programs begin UTF-8 with a mark
    check_shape(text, settings)
    try:
        data = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        try:
            text.decode()
        except UnicodeDecodeError as wrong:
            raise Fault("bad_request", f"the body isn't UTF-8: {wrong.reason} at byte "
                                       f"{wrong.start}", hint="send JSON as UTF-8") from None
        raise Fault("bad_request", f"the body isn't JSON: {error}",
                    hint="send a JSON object") from None
    _check_numbers(data)
    return data


def validated(model: type[_M], data: Any) -> _M:
    """``data`` as ``model`` reads it. Raises a ``Fault`` that names the first wrong field."""
    if not isinstance(data, dict):
        raise Fault("bad_request", f"the body must be a JSON object, got {_kind(data)}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        said = "; ".join(f"{_place(each['loc'])}: {each['msg']}" for each in found[:SHOWN_ERRORS])
        more = len(found) - SHOWN_ERRORS
        raise Fault("bad_request", said + (f"; and {more} more" if more > 0 else ""),
                    param=_place(found[0]["loc"])) from None


def _place(parts: tuple[int | str, ...]) -> str:
    place = ".".join(str(part) for part in parts)
    return place if len(place) <= SHOWN_PLACE else place[:SHOWN_PLACE] + "..."


async def _read_unless_closing(request: Request, state: State) -> bytes:
    reading = asyncio.ensure_future(_read(request, state))
    try:
        while not reading.done():
            await asyncio.wait((reading,), timeout=CLOSING_S)
            if state.closing.is_set() and not reading.done():
                raise Fault("closing", "the server shuts down", retry_after=1,
                            hint="try again when it is back")
        return reading.result()
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait((reading,))
        del reading  # its exception refers to this frame: a cycle that only the collector ends


async def _read(request: Request, state: State) -> bytes:
    settings = state.settings
    most = settings.max_body_bytes
    coding = request.headers.get("content-encoding", "")
    if coding.strip().lower() not in ("", "identity"):
        raise Fault("unsupported", f"a body with the Content-Encoding {coding[:40]!r} isn't read",
                    hint="send the JSON as it is, without compression")
    stated = request.headers.get("content-length", "")
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > most:
        _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                body += part
                state.n_body_bytes += len(part)
                if len(body) > most:
                    _too_large(most)
                if state.n_body_bytes > max(settings.bodies_bytes, most):
                    raise Fault("full", "the server reads too many large bodies at once",
                                hint="try again later", retry_after=1)
    except TimeoutError:
        raise Fault("too_slow", f"the body didn't arrive within {settings.body_seconds:g} seconds",
                    hint="send the body at once") from None
    except ClientDisconnect:
        raise Fault("bad_request", "the client left before its body was complete") from None
    finally:
        state.n_body_bytes -= len(body)
    return bytes(body)


def _too_large(most: int) -> NoReturn:
    raise Fault("too_large", f"the body has more than {most} bytes",
                hint="the operator can raise max_body_bytes")


def check_shape(text: bytes, settings: Settings) -> None:
    """Raise a ``Fault`` where JSON ``text`` nests too deeply or has too many values, each of which
    takes far more memory than text. Every step is one call over all bytes, so 64 MB take a
    fraction of a second."""
    n_openers = text.count(b"[") + text.count(b"{")
    n_values = n_openers + text.count(b",")
    most = settings.max_values
    if n_openers <= settings.max_nesting and n_values <= most:
        return
    # Without escapes a quotation mark begins or ends a text, so every second part is outside.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > _QUOTES_OF_VALUE * (most + 1):
        _too_many(most)
    outside = b"".join(plain.split(b'"')[::2])
    if outside.count(b"[") + outside.count(b"{") + outside.count(b",") > most:
        _too_many(most)
    brackets = outside.translate(_ROUND, _NOT_BRACKETS)
    for _ in range(settings.max_nesting):  # each time the innermost level goes
        inner = brackets.replace(b"()", b"")
        if len(inner) == len(brackets):
            break
        brackets = inner
    if brackets.count(b"(") > settings.max_nesting or b"()" in brackets:
        raise Fault("too_large", f"the body nests more than {settings.max_nesting} levels deep",
                    hint="send a flatter body")


def _too_many(most: int) -> NoReturn:
    raise Fault("too_large", f"the body has more than {most} values",
                hint="send less at once; the operator can raise max_values")


def _check_numbers(data: Any) -> None:
    """Refuse numbers such as 1e999, which become infinite."""
    todo = [data]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            todo.extend(each.values())
        elif isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, float) and math.isinf(each):
            raise Fault("bad_request", "the body has a number beyond what a double can hold",
                        hint="send smaller numbers")


def _kind(data: object) -> str:
    return {list: "a list", str: "a text", type(None): "null", bool: "a boolean"}.get(
        type(data), "a number")
