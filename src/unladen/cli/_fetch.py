"""The model that a command is given: one that has to be downloaded is, with a word about it."""

from __future__ import annotations

import os
import re
from typing import Final

from unladen.errors import ModelNotFound, UnladenError
from unladen.hub import LocalFile, parse_ref, resolve_model

_OLLAMA: Final = re.compile(
    r"[a-z0-9][a-z0-9._-]*:[\w.-]+|(?:llama|qwen|gemma|mistral|mixtral|phi|deepseek|gpt-oss|"
    r"smollm|granite|codellama|tinyllama)[a-z0-9._-]*")
"""``llama3.2:1b``; without a tag, names of families that everybody has heard of."""


def fetched(model: str) -> str:
    """``model``, or the file that it was downloaded to if it is one of the hub. Raises what
    :func:`~unladen.hub.resolve_model` does for these."""
    try:
        is_local = model == "tiny" or isinstance(parse_ref(model, aliases={}), LocalFile)
    except UnladenError:
        if _OLLAMA.fullmatch(model):
            raise ModelNotFound(
                f"{model!r} is neither a file nor an alias, and Ollama's names aren't read yet",
                hint="give a GGUF file, or a model of Hugging Face such as org/repo:Q4_K_M"
            ) from None
        return model  # whoever opens it says what is wrong with it
    if is_local:
        return model
    from unladen.cli._progress import Download
    return os.fspath(resolve_model(model, aliases={}, progress=Download))
