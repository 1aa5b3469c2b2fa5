"""The parameters of the answers of a conversation, which ``/set`` changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from unladen.cli._options import reasoning_of
from unladen.errors import InvalidArgument
from unladen.parameters.chat import CHAT, chat
from unladen.parameters.table import MISSING

NAMES: Final = tuple(sorted(CHAT.parameters.keys() - {
    "continues", "logprobs", "documents", "priority"}))
"""What can be set: parameters that mean something for every answer of a conversation."""
BACK: Final = "default"
"""The value that takes a setting back."""
_WORDS: Final[Mapping[str, object]] = {
    "on": True, "true": True, "off": False, "false": False, "none": None}


class Settings:
    """Parameters of :meth:`unladen.Session.stream_say` by name. ``given`` are those of the command
    line; raises :class:`InvalidArgument`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.values = {name: value for name, value in chat("chat").taken(given).items()
                       if value not in (None, ())}

    def set(self, name: str, text: str) -> None:
        """Let the setting ``name`` have the value that ``text`` writes. Raises
        :class:`InvalidArgument`, and leaves the settings as they were."""
        ours = self._named(name)
        if text.lower() == BACK:
            self.values.pop(ours, None)
        elif ours == "reasoning":
            self.values |= reasoning_of(text)
        else:
            self.values |= _read(ours, text)

    def lines(self) -> Iterator[str]:
        """What is set, a line each, and then the names of all other settings."""
        for name in NAMES:
            if name in self.values:
                yield f"{name} = {_shown(self.values[name])}"
        yield f"not set: {', '.join(name for name in NAMES if name not in self.values)}"

    def about(self, name: str) -> str:
        """What the setting ``name`` means, and its value. Raises :class:`InvalidArgument`."""
        ours = self._named(name)
        parameter = CHAT.parameters[ours]
        if ours in self.values:
            value = _shown(self.values[ours])
        else:
            value = "not set" if parameter.default is MISSING or parameter.default is None else (
                f"not set; {_shown(parameter.default)}, or what the model's file says")
        return f"{ours}: {parameter.about} ({value})"

    def _named(self, name: str) -> str:
        if name in NAMES:
            return name
        other = getattr(CHAT.others().get(name), "ours", None)
        if other in NAMES:
            return str(other)
        near = ([each for each in NAMES if name and each.startswith(name.lower())]
                or get_close_matches(name.lower(), NAMES, n=1))
        begin = f"did you mean {' or '.join(near)}? " if near else ""
        raise InvalidArgument(f"there is no setting {name}",
                              hint=f"{begin}there are: {', '.join(NAMES)}")


def _read(name: str, text: str) -> dict[str, Any]:
    """The first reading of ``text`` that is a value of the parameter ``name``."""
    first: InvalidArgument | None = None
    for value in _readings(text):
        try:
            return chat("/set").taken({name: value})
        except InvalidArgument as error:
            first = first or error
    assert first is not None
    raise InvalidArgument(first.message,
                          hint=f"{name}: {CHAT.parameters[name].about}; {BACK} takes it back")


def _readings(text: str) -> Iterator[object]:
    """What ``text`` may mean, the likeliest first: a word, JSON, a text, a list."""
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None  # it isn't JSON: the readings below are left
    if isinstance(value, dict) and value and all(key.lstrip("-").isdigit() for key in value):
        yield {int(key): each for key, each in value.items()}
    elif value is not None:
        yield value
    yield text
    yield text.split(";")


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)
