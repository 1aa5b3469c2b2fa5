"""The commands of a conversation: lines that begin with a slash."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from unladen.cli._table import entry
from unladen.cli._talk.settings import NAMES
from unladen.errors import InvalidArgument, TemplateError

if TYPE_CHECKING:
    from unladen.cli._talk.conversation import Conversation


class Described(NamedTuple):
    """A command: what comes after its name, and what it does."""

    argument: str
    about: str


COMMANDS: Final[Mapping[str, Described]] = MappingProxyType({
    "help": Described("", "Show this list."),
    "system": Described("[TEXT]", "Change the system message, and keep the conversation. Without "
                                  "TEXT: show it; /system none drops it."),
    "set": Described("[NAME [VALUE]]", "Set a parameter of the answers, such as temperature or "
                                       "max_tokens. Without VALUE: show it; without NAME: show "
                                       "all. The value default takes a setting back."),
    "regen": Described("", "Answer the last message anew."),
    "clear": Described("", "Begin a new conversation; the system message stays."),
    "save": Described("FILE", "Write the conversation to FILE."),
    "load": Described("FILE", "Go on from a conversation that /save wrote."),
    "bye": Described("", "End the conversation, as Ctrl-D does."),
})
"""The commands by name, in the order of the help."""
SAME: Final[Mapping[str, str]] = MappingProxyType({
    "?": "help", "exit": "bye", "quit": "bye", "regenerate": "regen", "reset": "clear",
    "new": "clear"})
"""Names of other programs for these commands."""
KEYS: Final = (
    ("Alt-Enter", "Begin a new line. So does Enter after a backslash, and everything from "
                  '""" to """ is one message.'),
    ("Ctrl-C", "Stop an answer; what was said stays. At the prompt: clear the line."),
    ("Up, Ctrl-R", "Bring back an earlier message; search for one."),
    ("Tab", "Complete a command."),
    ("//text", "Send a message that begins with one slash."))
"""Keys and marks, and what they do."""


class Slash:
    """Obeys commands in ``conversation``."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._actions: Mapping[str, Callable[[str], None]] = {
            "help": self._help, "system": self._system, "set": self._set, "regen": self._regen,
            "clear": self._clear, "save": self._save, "load": self.load}

    def obey(self, line: str) -> bool:
        """Obey ``line``, and return whether the conversation goes on. Raises
        :class:`InvalidArgument` for what isn't a command, and the errors of commands."""
        first, _, rest = line[1:].partition("\n")
        word, _, argument = first.strip().partition(" ")
        argument = f"{argument.strip()}\n{rest}" if rest else argument.strip()
        name = SAME.get(word.lower(), word.lower())
        if name not in COMMANDS:
            near = get_close_matches(name, [*COMMANDS, *SAME], n=1, cutoff=0.5)
            begin = f"did you mean /{near[0]}? " if near else ""
            raise InvalidArgument(
                f"there is no command /{word}",
                hint=f"{begin}/help lists the commands; //{word} sends a message that begins with "
                     "a slash")
        wanted = COMMANDS[name].argument
        if bool(argument) and not wanted:
            raise InvalidArgument(f"/{name} takes nothing more, got {argument!r}")
        if not argument and wanted and not wanted.startswith("["):
            raise InvalidArgument(f"/{name} needs a {wanted}",
                                  hint=f"for example /{name} talk.json")
        if name == "bye":
            return False
        self._actions[name](argument)
        return True

    def _help(self, argument: str) -> None:
        columns = max(20, shutil.get_terminal_size().columns - 1)
        rows = [(f"/{name} {each.argument}".rstrip(), each.about)
                for name, each in COMMANDS.items()]
        lines = [line for name, about in rows for line in entry(name, about, columns, at=22)]
        lines += ["", *(line for name, about in KEYS
                        for line in entry(name, about, columns, at=22))]
        self._says("\n".join(lines))

    def _system(self, text: str) -> None:
        messages = self._talk.session.messages
        has_one = bool(messages) and messages[0]["role"] in ("system", "developer")
        if not text:
            self._says(str(messages[0]["content"]) if has_one else "There is no system message.")
            return
        rest = messages[1:] if has_one else messages
        new = [] if text.lower() == "none" else [{"role": "system", "content": text}]
        self._talk.begin_with([*new, *rest])
        self._says("The system message is set." if new else "There is no system message now.")

    def _set(self, text: str) -> None:
        name, _, value = text.partition(" ")
        if name == "parameter":  # Ollama's way
            name, _, value = value.strip().partition(" ")
        settings = self._talk.settings
        if not name:
            self._says("\n".join(settings.lines()))
            return
        if value.strip():
            before = dict(settings.values)
            settings.set(name, value.strip())
            try:
                self._talk.check()
            except TemplateError:
                settings.values = before
                raise
        self._says(settings.about(name))

    def _regen(self, argument: str) -> None:
        if all(m["role"] in ("system", "developer") for m in self._talk.session.messages):
            raise InvalidArgument("there is nothing to answer", hint="say something first")
        self._talk.regenerate()

    def _clear(self, argument: str) -> None:
        self._talk.begin_with([m for m in self._talk.session.messages[:1]
                               if m["role"] in ("system", "developer")])
        self._says("A new conversation.")

    def _save(self, path: str) -> None:
        self._talk.session.save(os.path.expanduser(path))
        self._says(f"Saved to {path}.")

    def load(self, path: str) -> None:
        """Go on from the conversation in the file ``path``."""
        session = self._talk.session
        session.load(os.path.expanduser(path))
        n = len(session.messages)
        self._says(f"Loaded {n} message{'s' if n != 1 else ''} from {path}.")

    def _says(self, text: str) -> None:
        self._talk.screen.says(text)


def completions(before: str) -> list[str]:
    """What the last word of ``before``, a line up to the cursor, may become."""
    command, space, rest = before.partition(" ")
    if not before.startswith("/") or "\n" in before:
        return []
    if not space:
        return [f"/{name}" for name in COMMANDS if name.startswith(before[1:])]
    if command == "/set" and " " not in rest:
        return [name for name in NAMES if name.startswith(rest)]
    if command in ("/save", "/load") and " " not in rest:
        return _files(rest)
    return []


def _files(begun: str) -> list[str]:
    """Files and folders whose path begins with ``begun``."""
    head, slash, tail = begun.rpartition("/")
    try:
        there = sorted(Path(os.path.expanduser(head + slash) or ".").iterdir())
    except (OSError, RuntimeError):
        return []  # the folder doesn't exist or can't be read
    return [f"{head}{slash}{p.name}{'/' if p.is_dir() else ''}" for p in there
            if p.name.startswith(tail) and (tail.startswith(".") or not p.name.startswith("."))]
