"""The model that a command is given: one that has to be downloaded is, with a word about it."""

from __future__ import annotations

import os

from unladen.errors import UnladenError
from unladen.hub import LocalFile, parse_ref, resolve_model


def fetched(model: str) -> str:
    """``model``, or the file that it was downloaded to if it is one of the hub. Raises what
    :func:`~unladen.hub.resolve_model` does for these."""
    try:
        is_local = model == "tiny" or isinstance(parse_ref(model, aliases={}), LocalFile)
    except UnladenError:
        return model  # whoever opens it says what is wrong with it
    if is_local:
        return model
    from unladen.cli._progress import Download
    return os.fspath(resolve_model(model, aliases={}, progress=Download))
