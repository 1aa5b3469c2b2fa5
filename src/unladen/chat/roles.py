"""Forms of a conversation for templates that lack a role or want turns to alternate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Said = list[dict[str, Any]]
"""Messages as :func:`unladen.chat.reading.read_messages` returns them."""

BETWEEN: Final = "\n\n"
"""What stands between two messages that become one."""
NO_SYSTEM: Final = "the template has no system role: the user's first message begins with its text"
NO_DEVELOPER: Final = "the template has no developer role: its messages have the role system"
ALTERNATING: Final = "the template wants roles to alternate: messages of one role are joined"


def with_known_roles(messages: Said, source: str) -> tuple[Said, tuple[str, ...]]:
    """``messages`` for a template with this ``source``, and what was changed: ``developer`` is
    ``system`` where the template doesn't know it."""
    if "developer" in source or all(m["role"] != "developer" for m in messages):
        return messages, ()
    return [{**m, "role": "system"} if m["role"] == "developer" else m
            for m in messages], (NO_DEVELOPER,)


def forms(messages: Said) -> Iterator[tuple[Said, tuple[str, ...]]]:
    """``messages`` as they are, and then for templates that refuse them; and what was changed."""
    yield messages, ()
    alternating, folded = _joined(messages), _folded(messages)
    if alternating != messages:
        yield alternating, (ALTERNATING,)
    if folded != messages:
        yield folded, (NO_SYSTEM,)
        both = _joined(folded)
        if both != folded:
            yield both, (NO_SYSTEM, ALTERNATING)


def _folded(messages: Said) -> Said:
    """The text of system messages in front of the first message that a user wrote after them."""
    made: Said = []
    waiting: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(message)
            continue
        if waiting and message["role"] == "user":
            message = _together([*waiting, message], "user")
            waiting = []
        made.append(message)
    return messages if waiting else made


def _joined(messages: Said) -> Said:
    """Messages of one role in turn as one message. Those with calls and results stay apart."""
    made: Said = []
    for message in messages:
        plain = message["role"] in ("system", "user") or (
            message["role"] == "assistant" and "tool_calls" not in message)
        if plain and made and made[-1]["role"] == message["role"] and "tool_calls" not in made[-1]:
            made[-1] = _together([made[-1], message], message["role"])
        else:
            made.append(message)
    return made


def _together(messages: Said, role: str) -> dict[str, Any]:
    contents = [message.get("content", "") for message in messages]
    rest = {key: value for message in messages for key, value in message.items()}
    if all(isinstance(content, str) for content in contents):
        return {**rest, "role": role, "content": BETWEEN.join(filter(None, contents))}
    parts: list[dict[str, Any]] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**rest, "role": role, "content": parts}
