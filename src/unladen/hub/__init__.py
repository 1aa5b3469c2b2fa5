"""Where models come from: a path, an alias, or the Hugging Face hub and its cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unladen.errors import ModelNotFound
from unladen.hub.ref import HubFile, HubQuant, LocalFile, ModelRef, parse_ref

__all__ = ["HubFile", "HubQuant", "LocalFile", "ModelRef", "parse_ref", "resolve_model"]


def resolve_model(text: str, *, aliases: Mapping[str, Path], offline: bool = False,
                  progress: type | None = None) -> Path:
    """The local file that ``text`` means, downloaded if necessary; the first part if the model is
    split. ``progress`` is passed to :func:`~unladen.hub.fetch.fetch`.

    Raises what :func:`parse_ref` and :func:`~unladen.hub.fetch.fetch` raise, and
    :class:`ModelNotFound` where an alias leads to no file.
    """
    ref = parse_ref(text, aliases=aliases)
    if not isinstance(ref, LocalFile):
        from unladen.hub.fetch import fetch
        return fetch(ref, offline=offline, progress=progress)
    if not ref.path.is_file():
        raise ModelNotFound(f"{text} stands for {ref.path}, which isn't a file",
                            hint="install unladen again, or name another model")
    return ref.path
