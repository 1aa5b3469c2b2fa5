"""Names of the models that a user makes: ``[namespace/]model[:tag]``, as Ollama writes them."""

from __future__ import annotations

import re
from typing import Final

from unladen.errors import InvalidArgument
from unladen.hub.included import INCLUDED
from unladen.hub.stores._ollama_files import HOST, NAMESPACE, PARTS, TAG, Name

_NAME: Final = re.compile(r"(?:([^/:]+)/)?([^/:]+)(?::([^/:]+))?")
_SHOWN: Final = 200
"""Characters of a name that an error quotes at most."""


def own_name(text: str) -> Name | None:
    """The name that ``text`` is; None where it can't be one."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    name = Name(HOST, match[1] or NAMESPACE, match[2], match[3] or TAG)
    parts = (name.host, name.namespace, name.model, name.tag)
    return name if all(map(re.Pattern.fullmatch, PARTS, parts)) else None


def new_name(text: str) -> Name:
    """The name that a new model gets. Raises :class:`InvalidArgument`."""
    name = own_name(text)
    if name is None:
        raise InvalidArgument(f"{text[:_SHOWN]!r} can't be the name of a model", hint=(
            "a name is model, model:tag or you/model:tag, of letters, digits and _.-"))
    if text.lower() in INCLUDED or text.lower().endswith(".gguf"):
        raise InvalidArgument(f"{text} means another model already",
                              hint=f"choose another name, such as my-{name.model}")
    return name
