"""Downloads the model that a command is given if it is on the hub, and shows the progress."""

from __future__ import annotations

import os
import re
from typing import Final

from unladen.errors import ModelNotFound, UnladenError
from unladen.hub import LocalFile, parse_ref, resolve_model

_OLLAMA: Final = re.compile(
    r"[a-z0-9][a-z0-9._-]*:[\w.-]+|(?:llama|qwen|gemma|mistral|mixtral|phi|deepseek|gpt-oss|"
    r"smollm|granite|codellama|tinyllama)[a-z0-9._-]*")
"""Names that look like Ollama's: ``llama3.2:1b``, or a well-known family without a tag."""


def fetched(model: str) -> str:
    """``model``, or the local file of a model on the hub, downloaded if necessary. Raises the
    errors of :func:`~unladen.hub.resolve_model` for these."""
    try:
        is_local = model == "tiny" or isinstance(parse_ref(model, aliases={}), LocalFile)
    except UnladenError:
        if _OLLAMA.fullmatch(model):
            raise ModelNotFound(
                f"{model!r} is neither a file nor an alias, and Ollama's names aren't read yet",
                hint="give a GGUF file, or a model of Hugging Face such as org/repo:Q4_K_M"
            ) from None
        return model  # opening it raises an error that says what is wrong
    if is_local:
        return model
    from unladen.cli._progress import Download
    return os.fspath(resolve_model(model, aliases={}, progress=Download))
