"""Parses the name of a model that a user gives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from unladen.errors import InvalidArgument, ModelNotFound
from unladen.paths import problem_of, similar

_NAME: Final = r"[A-Za-z0-9_][\w.-]*"
"""An organization's or a repository's name."""
_HUB: Final = (rf"(?P<repo>{_NAME}/{_NAME})(?:@(?P<revision>[^/:@]+))?"
                         r"(?::(?P<quant>[\w.-]+)|/(?P<file>.+\.gguf))?/?")
_WITH_HOST: Final = (r"(?P<scheme>https?://)?(?:huggingface\.co|hf\.co)/(?P<path>[^?#]*)"
                               r"(?:[?#].*)?")
_URL_PATH: Final = rf"({_NAME}/{_NAME})/(?:resolve|blob)/([^/]+)/(.+)"
_UNFINISHED: Final = (".part", ".incomplete", ".crdownload", ".safetensors", ".bin", ".zip")
"""Suffixes that mean a file, though not a model: such a text is never looked up on the hub."""
_LONGEST: Final = 200
"""Characters of a name that an error quotes at most."""
_URL_OF_FOLDER: Final = rf"({_NAME}/{_NAME})/tree/([^/]+)/?"
_FORMS: Final = "a path, org/repo:Q4_K_M or hf://org/repo/file.gguf"
"""The forms of a reference, for hints."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class HubQuant:
    """A model in the hub's ``repo``, chosen by its quant in upper case; None means any."""

    repo: str
    quant: str | None = None
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in the hub's ``repo``, chosen by its name."""

    repo: str
    filename: str
    revision: str = "main"


ModelRef: TypeAlias = LocalFile | HubQuant | HubFile


def repo_folder(repo: str) -> str:
    """The name of the folder of the repository ``repo`` in a cache in the hub's layout."""
    return f"models--{repo.replace('/', '--')}"


def parse_ref(text: str, *, aliases: Mapping[str, Path]) -> ModelRef:
    """Decide what ``text`` means. This looks on the disk for a file, but never uses the network.

    The forms, in this order: an existing file; one of ``aliases``; ``org/repo`` after ``hf://``,
    ``hf.co/`` or the hub's URL; ``org/repo`` alone. ``org/repo`` may be followed by ``@revision``
    and then by ``:QUANT`` in any case or ``/file.gguf``. Raises :class:`ModelNotFound` where
    ``text`` can only be a missing file or alias, :class:`InvalidArgument` where its form is wrong.
    """
    path = os.path.expanduser(text)
    if os.path.isfile(path):
        return LocalFile(Path(path))
    if text in aliases:
        return LocalFile(aliases[text])
    if (address := _hub_address(text)) is not None:
        return _hub_ref(text, address)
    if (text.startswith((".", "/", "~")) or "\\" in text or "\0" in text
            or text.lower().endswith((".gguf", *_UNFINISHED)) or _is_there(path)):
        raise _no_file(text, path)
    if "/" in text:
        return _hub_ref(text, text)
    known = ", ".join(sorted(aliases)) or "none"
    near = [*_close_to(text, aliases), *similar(path)]
    raise ModelNotFound(f"{text[:_LONGEST]!r} is neither a file nor an alias", hint=(
        f"did you mean {' or '.join(near)}?" if near else
        f"aliases: {known}; or give {_FORMS}"))


def _close_to(text: str, aliases: Mapping[str, Path]) -> list[str]:
    from difflib import get_close_matches
    return get_close_matches(text[:_LONGEST], aliases, n=2)


def _is_there(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _no_file(text: str, path: str) -> ModelNotFound:
    """The error that says what is at ``path`` instead of a file."""
    problem = problem_of(path)
    if problem is None:  # the file has appeared since it was looked for
        return ModelNotFound(f"{text} wasn't there a moment ago", hint="try again")
    name = text if text.isprintable() and len(text) < _LONGEST else f"{text[:_LONGEST]!r}..."
    hint = problem.hint or "check the path"
    if re.fullmatch(_HUB, text, re.ASCII) and not text.startswith("."):
        hint += f"; on the hub it is hf://{text}"
    return ModelNotFound(f"{name} {problem.what}", hint=hint)


def _hub_address(text: str) -> str | None:
    """``org/repo...`` of a text that names the hub; None where the text doesn't."""
    if text.startswith("hf://"):
        return text.removeprefix("hf://")
    if match := re.fullmatch(_WITH_HOST, text):
        return unquote(match["path"]) if match["scheme"] else match["path"]
    if text.startswith("file://"):
        raise InvalidArgument(f"{text} is an address, not a path",
                              hint=f"give the path alone: {unquote(text.removeprefix('file://'))}")
    if "://" in text:
        raise InvalidArgument(f"{text} isn't an address of huggingface.co",
                              hint="download the file and give its path")
    return None


def _hub_ref(text: str, address: str) -> HubQuant | HubFile:
    if match := re.fullmatch(_URL_PATH, address, re.ASCII):
        address = "{}@{}/{}".format(*match.groups())
    elif match := re.fullmatch(_URL_OF_FOLDER, address, re.ASCII):
        address = "{}@{}".format(*match.groups())
    match = re.fullmatch(_HUB, address, re.ASCII)
    if match is None or ".." in (match["file"] or "").split("/"):
        raise InvalidArgument(f"{text[:_LONGEST]} isn't a reference to a model",
                              hint=f"give {_FORMS}")
    revision = match["revision"] or "main"
    if match["file"]:
        return HubFile(match["repo"], match["file"], revision)
    return HubQuant(match["repo"], match["quant"] and match["quant"].upper(), revision)
