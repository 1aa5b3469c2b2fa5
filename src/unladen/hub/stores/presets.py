"""The settings that a stored model has beside its weights."""

from __future__ import annotations

import logging

from unladen.errors import UnladenError
from unladen.hub.preset import Preset
from unladen.hub.stores._disk import printable
from unladen.hub.stores.base import StoredModel
from unladen.hub.stores.finding import described

log = logging.getLogger("unladen")


def preset_of(model: StoredModel) -> Preset | None:
    """The settings of ``model``; None where it has none. Where its store can't tell them, a
    warning says why.

    The store's template counts, and the file's own without one. A format that is built into Ollama
    is the one that the file's template writes: where Ollama's store names such a format, the
    store's template is used only if the file has none.
    """
    try:
        whole = described(model)
    except UnladenError as error:
        log.warning("%s is used without its settings: %s", printable(model.name), error.message)
        return None
    messages = [each for each in whole.messages or () if isinstance(each, dict)
                and all(isinstance(each.get(key), str) for key in ("role", "content"))]
    found = Preset(whole.template or "", bool(whole.renderer), whole.system or "", messages,
                   whole.parameters or {})
    return found or None
