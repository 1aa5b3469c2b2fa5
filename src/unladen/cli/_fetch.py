"""Finds the model that a command is given; downloads it if it is on the hub, with progress."""

from __future__ import annotations

import os
import re
from typing import Final

from unladen.errors import InvalidArgument, ModelNotFound, UnladenError
from unladen.hub import INCLUDED, LocalFile, find_model, parse_ref

_OLLAMA: Final = re.compile(
    r"[a-z0-9][a-z0-9._-]*:[\w.-]+|(?:llama|qwen|gemma|mistral|mixtral|phi|deepseek|gpt-oss|"
    r"smollm|granite|codellama|tinyllama)[a-z0-9._-]*")
"""Names that look like Ollama's: ``llama3.2:1b``, or a well-known family without a tag."""


def fetched(model: str) -> str:
    """``model`` as :class:`unladen.Model` finds it without the network: a path, or a name that has
    settings. Downloads it if necessary. Raises the errors of :func:`~unladen.hub.find_model`."""
    if model in INCLUDED or _is_file(model):
        return model
    from unladen.cli._progress import Download
    from unladen.gguf.glance import glance
    try:
        found = find_model(model, aliases=INCLUDED, progress=Download, look=glance)
    except (ModelNotFound, InvalidArgument) as error:
        if _OLLAMA.fullmatch(model) and "did you mean" not in error.hint and not _is_known(model):
            raise unknown(model, f"ollama pull {model} gets it for Ollama, whose store is read"
                          ) from None
        raise
    return model if found.preset is not None else os.fspath(found.path)


def unknown(model: str, more: str) -> ModelNotFound:
    """The error for a short name that nothing on this machine knows. ``more``: what else to try."""
    from unladen.hub.short_names import own_table
    return ModelNotFound(
        f"{model!r} is neither a file nor an alias, no store has it, and it is in no table "
        "of names",
        hint=f"{more}; or give a GGUF file, or a model of Hugging Face such as org/repo:Q4_K_M; a "
             f"line in {own_table()} gives that a short name")


def _is_file(model: str) -> bool:
    try:
        return isinstance(parse_ref(model, aliases={}), LocalFile)
    except UnladenError:
        return False


def _is_known(model: str) -> bool:
    """Whether a table or a store has the name, so that its error says more."""
    from unladen.hub.short_names import own_target, shipped_target
    from unladen.hub.stores.created import created
    from unladen.hub.stores.finding import every_called
    return bool(own_target(model) or shipped_target(model) or created(model)
                or every_called(model, None))
