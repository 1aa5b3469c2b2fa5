"""What the headers of files say, for lists of models: nothing is planned, no weights are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unladen.types import Glance

if TYPE_CHECKING:
    from unladen.hub.stores import StoredModel


@dataclass(frozen=True, slots=True)
class Header:
    """What a file is. ``context``: tokens that the model was trained for; ``n_parameters``: numbers
    in all its tensors. Both are 0, and ``arch`` "", where the file can't be read."""

    glance: Glance
    arch: str = ""
    n_parameters: int = 0
    context: int = 0


class Headers:
    """Reads headers, each once as long as its file stays the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], Header]] = {}

    def of(self, path: Path) -> Header:
        """The header of the file ``path``, or of the split model that begins there."""
        try:
            status = os.stat(path)
        except OSError:
            return _read(path)
        stamp = status.st_mtime_ns, status.st_size
        known = self._known.get(str(path))
        if known is None or known[0] != stamp:
            known = self._known[str(path)] = stamp, _read(path)
        return known[1]

    def stored(self) -> list[tuple[StoredModel, Header]]:
        """Every model of every store of this machine, also those that can't be used."""
        from unladen.hub.stores import listed
        found = listed(lambda path: self.of(path).glance)
        return [(each, self.of(each.path) if each.is_usable else Header(Glance("model")))
                for each in found if each.kind == "model"]


def _read(path: Path) -> Header:
    from unladen.gguf import open_gguf
    from unladen.gguf.glance import glance
    seen = glance(path)
    if seen.problem:
        return Header(seen)
    with open_gguf(path) as file:
        arch = file.metadata.get("general.architecture")
        context = file.metadata.get(f"{arch}.context_length")
        return Header(seen, arch if isinstance(arch, str) else "",
                      sum(each.n_elements for each in file.tensors.values()),
                      context if isinstance(context, int) and context > 0 else 0)


def devices_of(names: Sequence[str]) -> list[dict[str, Any]]:
    """The devices called ``names`` as values for JSON, or those that a model gets by default where
    there are none. Raises what opening them raises."""
    from unladen.assembly.setup import device_names
    from unladen.backends import backend_of
    from unladen.backends.base import BackendOptions
    found = []
    for name in device_names(list(names) or None):
        assert isinstance(name, str)
        backend = backend_of(name)
        device = backend.open(name, BackendOptions())
        found.append({"name": device.name, "description": device.description,
                      "total_bytes": device.memory_bytes,
                      "free_bytes": backend.free_bytes(device), "is_host": device.is_host,
                      "is_pretend": device.is_pretend})
    return found
