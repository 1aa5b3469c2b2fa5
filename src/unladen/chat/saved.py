"""Conversations in files. A file may come from anywhere: everything in it is checked."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unladen.chat.conversation import Answered, Asked, Conversation, Piece, decoded
from unladen.errors import InvalidArgument
from unladen.tokenizer import Tokenizer

VERSION = 1
"""The version of the files that are written here, and the only one that is read."""
MAX_BYTES = 64 << 20
"""The largest file that is read: a million tokens take some 16 MB."""
MAX_MESSAGES = 100_000
"""Most messages of a file: more than any context holds."""


def write(path: str | os.PathLike[str], conversation: Conversation, fingerprint: str) -> None:
    """Write ``conversation`` to ``path``: beside it first, then in its place.

    * ``fingerprint``: of the model's template and vocabulary.

    Raises :class:`InvalidArgument` for messages that JSON can't hold, and :class:`OSError`.
    """
    try:
        text = json.dumps({"version": VERSION, "fingerprint": fingerprint,
                           "messages": conversation.messages,
                           "pieces": [_written(conversation.tokenizer, piece)
                                      for piece in conversation.pieces]})
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the messages can't be saved: {error}",
                              hint="messages must be made of texts, numbers, lists and dicts"
                              ) from None
    if len(text) > MAX_BYTES:
        raise InvalidArgument(f"the conversation takes {len(text)} bytes, and {MAX_BYTES} are "
                              "allowed", hint="leave pictures out of the messages")
    target = Path(path)
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _written(tokenizer: Tokenizer, piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Asked):
        return {"asked": piece.text, "plain": [*map(list, piece.plain)], "ids": piece.ids}
    return {"answered": decoded(tokenizer, piece.ids), "ids": piece.ids}


def read(path: str | os.PathLike[str], tokenizer: Tokenizer, fingerprint: str) -> Conversation:
    """The conversation in the file ``path``; its tokens only if they are those of a model with
    ``fingerprint``. Raises :class:`InvalidArgument` and :class:`OSError`."""
    with Path(path).open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _bad(path, f"it has more than {MAX_BYTES} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"it isn't JSON: {error}") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise _bad(path, f"it isn't a conversation of version {VERSION}")
    messages = found.get("messages")
    if not isinstance(messages, list) or len(messages) > MAX_MESSAGES:
        raise _bad(path, f"messages must be a list of at most {MAX_MESSAGES}")
    try:
        conversation = Conversation(tokenizer, messages)
        if found.get("fingerprint") == fingerprint:
            conversation.pieces = _pieces(tokenizer, found.get("pieces"))
    except InvalidArgument as error:
        raise _bad(path, error.message) from None
    except RecursionError:
        raise _bad(path, "its messages are nested too deeply") from None
    return conversation


def _pieces(tokenizer: Tokenizer, pieces: object) -> tuple[Piece, ...]:
    if not isinstance(pieces, list) or len(pieces) > 2 * MAX_MESSAGES:
        raise InvalidArgument("pieces must be a list")
    read: list[Piece] = []
    for i, piece in enumerate(pieces):
        if not isinstance(piece, dict):
            raise InvalidArgument(f"pieces[{i}] must be an object")
        read.append(_piece(tokenizer, piece, f"pieces[{i}]", is_first=not read))
    return tuple(read)


def _piece(tokenizer: Tokenizer, piece: Mapping[str, Any], where: str, *, is_first: bool) -> Piece:
    ids = piece.get("ids")
    if not isinstance(ids, list) or not all(
            type(token) is int and 0 <= token < tokenizer.n_vocab for token in ids):
        raise InvalidArgument(f"{where}.ids must be a list of token ids below {tokenizer.n_vocab}")
    if "answered" in piece:
        if decoded(tokenizer, ids) != piece["answered"]:
            raise InvalidArgument(f"{where}.ids aren't the tokens of its text")
        return Answered(ids)
    text, plain = piece.get("asked"), piece.get("plain")
    if not isinstance(text, str) or not _are_ranges(plain, len(text)):
        raise InvalidArgument(f"{where} must have a text and ranges of it")
    assert isinstance(plain, list)
    ranges = tuple((begin, end) for begin, end in plain)
    made = tokenizer.encode(text, add_special=False, continues=not is_first, plain=ranges)
    bos = [tokenizer.bos_id] if is_first and tokenizer.bos_id is not None else []
    if ids not in (made, [*bos, *made]):
        raise InvalidArgument(f"{where}.ids aren't the tokens of its text")
    return Asked(text, ranges, ids)


def _are_ranges(plain: object, n: int) -> bool:
    """Whether ``plain`` has ranges of a text of ``n`` characters, in order and apart."""
    if not isinstance(plain, list):
        return False
    at = 0
    for each in plain:
        if (not isinstance(each, list) or len(each) != 2
                or not all(type(place) is int for place in each)
                or not at <= each[0] < each[1] <= n):
            return False
        at = each[1]
    return True


def _bad(path: str | os.PathLike[str], why: str) -> InvalidArgument:
    return InvalidArgument(f"{os.fspath(path)} holds no conversation: {why}",
                           hint="session.save(path) writes such files")
