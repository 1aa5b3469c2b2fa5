"""The settings that a stored model has beside its weights."""

from __future__ import annotations

import logging

from unladen.errors import UnladenError
from unladen.hub.preset import Preset
from unladen.hub.stores._disk import printable
from unladen.hub.stores.base import StoredModel
from unladen.hub.stores.finding import stores

log = logging.getLogger("unladen")


def read_preset(model: StoredModel) -> Preset:
    """The settings of ``model``; an empty one where its store has none. What is malformed in a
    list is left out, with a warning. Raises :class:`~unladen.errors.UnladenError` where they can't
    be read."""
    return stores()[model.store].preset(model)


def preset_of(model: StoredModel) -> Preset | None:
    """The settings of ``model``; None where it has none. Where its store can't tell them, a
    warning says why."""
    try:
        return read_preset(model) or None
    except UnladenError as error:
        log.warning("%s is used without its settings: %s", printable(model.name), error.message)
        return None
