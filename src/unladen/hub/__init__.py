"""Where models come from: a path, an alias, a store on this machine, or the Hugging Face hub."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from unladen.errors import InvalidArgument, ModelNotFound
from unladen.hub.included import INCLUDED
from unladen.hub.ref import HubFile, HubQuant, LocalFile, ModelRef, parse_ref

if TYPE_CHECKING:
    from unladen.hub.preset import Preset
    from unladen.hub.stores import Look, StoredModel

__all__ = ["INCLUDED", "FoundModel", "HubFile", "HubQuant", "LocalFile", "ModelRef", "find_model",
           "parse_ref", "resolve_model"]

log = logging.getLogger("unladen")

_ONLY_A_PATH: Final = re.compile(r"[./~]|.*[\\\0]|(?!https?://).*://", re.DOTALL)
"""Begins a text that names no model of a store."""
_ON_THE_HUB: Final = re.compile(r"hf://|https?://")
"""Begins a text that names a model on the hub and no copy in another store."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """What a name leads to: the file at ``path``, of a split model the first part, and the
    settings that belong to the name, None where it has none. ``record``: the file that holds
    them, if there is one."""

    path: Path
    preset: Preset | None = None
    record: Path | None = None


def resolve_model(text: str, *, aliases: Mapping[str, Path], offline: bool = False,
                  progress: type | None = None, look: Look | None = None) -> Path:
    """The local file that ``text`` means; see :func:`find_model`."""
    return find_model(text, aliases=aliases, offline=offline, progress=progress, look=look).path


def find_model(text: str, *, aliases: Mapping[str, Path], offline: bool = False,
               progress: type | None = None, look: Look | None = None) -> FoundModel:
    """What ``text`` means, downloaded if necessary.

    A file comes first, then an alias, a model that was created here, a short name of the user's
    own table, the hub's cache, the stores of llama.cpp, LM Studio and Ollama, a short name of the
    package's table, and at last the hub itself.

    * ``aliases``: files by the names that stand for them.
    * ``offline``: never use the network.
    * ``progress``: passed to :func:`~unladen.hub.fetch.fetch`.
    * ``look``: reads a header, to tell models of one name apart; see
      :func:`~unladen.hub.stores.find`.

    Raises what :func:`parse_ref`, :func:`~unladen.hub.fetch.fetch` and
    :func:`~unladen.hub.stores.find` raise, and :class:`ModelNotFound` where an alias leads to no
    file.
    """
    if not _ONLY_A_PATH.match(text) and text not in aliases and not os.path.isfile(text):
        from unladen.hub import short_names
        from unladen.hub.stores.created import created
        made = created(text)
        if made is not None:
            return _usable(text, made)
        own = short_names.followed(text)
        if own != text:
            return find_model(own, aliases=aliases, offline=offline, progress=progress, look=look)
    try:
        ref = parse_ref(text, aliases=aliases)
    except (ModelNotFound, InvalidArgument) as error:
        found = None if _ONLY_A_PATH.match(text) else _stored(text, look)
        if found is not None:
            return _with_preset(found)
        from unladen.hub.short_names import blame, shipped_target
        short = None if _ONLY_A_PATH.match(text) else shipped_target(text)
        if short is None:
            _suggest(error, text)
            raise
        try:
            return find_model(short, aliases={}, offline=offline, progress=progress, look=look)
        except ModelNotFound as missing:
            blame(missing, text, short)
            raise
    if not isinstance(ref, LocalFile):
        return _from_hub(text, ref, offline=offline, progress=progress, look=look)
    if not ref.path.is_file():
        raise ModelNotFound(f"{text} stands for {ref.path}, which isn't a file",
                            hint="install unladen again, or name another model")
    return FoundModel(ref.path)


def _usable(text: str, model: StoredModel) -> FoundModel:
    """The created ``model``. Raises :class:`ModelNotFound` where its weights are gone."""
    if not model.problem:
        return _with_preset(model)
    raise ModelNotFound(f"{text} {model.problem}",
                        hint="get that model again, or make this one anew: unladen create")


def _with_preset(model: StoredModel) -> FoundModel:
    if model.adapters:
        log.warning("%s is used without its adapter: adapters aren't applied yet", model.name)
    from unladen.hub.stores.presets import preset_of
    preset = preset_of(model)
    return FoundModel(model.path, preset, model.record if preset else None)


def _from_hub(text: str, ref: HubQuant | HubFile, *, offline: bool, progress: type | None,
              look: Look | None) -> FoundModel:
    """The file of ``ref``, which ``text`` names: from the hub's cache, from another program's
    store, or from the hub."""
    from unladen.hub.fetch import cached, fetch
    from unladen.hub.resolve import DEFAULT_QUANT

    in_cache = cached(ref)
    if in_cache is not None or _ON_THE_HUB.match(text):
        return FoundModel(in_cache or fetch(ref, offline=offline, progress=progress))
    # Only the hub's list says which quant a name without one means, so that other programs' stores
    # are asked for the default quant first, as the hub's cache is.
    is_open = isinstance(ref, HubQuant) and ref.quant is None
    found, broken = _stored_whole(f"{text}:{DEFAULT_QUANT}" if is_open else text, look)
    if found is None:
        try:
            return FoundModel(fetch(ref, offline=offline, progress=progress))
        except ModelNotFound as error:
            if is_open:
                found, broken = _stored_whole(text, look)
            if found is None:
                raise broken or error from None
    return _with_preset(found)


def _stored_whole(text: str, look: Look | None
                  ) -> tuple[StoredModel | None, ModelNotFound | None]:
    """The stored model, or the error for one that can't be used: the hub may have a whole one."""
    try:
        return _stored(text, look), None
    except ModelNotFound as error:
        return None, error


def _stored(text: str, look: Look | None) -> StoredModel | None:
    from unladen.hub.stores import find
    return find(text, look)


def _suggest(error: ModelNotFound | InvalidArgument, text: str) -> None:
    """Add names of stored models to the hint of ``error``, if some are like ``text``."""
    from unladen.hub.stores.finding import close_to
    near = [] if _ONLY_A_PATH.match(text) or "did you mean" in error.hint else close_to(text)
    if near:
        error.hint = f"did you mean {' or '.join(near)}? {error.hint}"
