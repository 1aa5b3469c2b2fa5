"""What the server keeps between requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from unladen.server.keyring import KeyRing
from unladen.server.settings import Settings

_T = TypeVar("_T")


@dataclass(slots=True)
class State:
    """The ``settings``, and what dialects keep for themselves.

    * ``keys``: those that are accepted.
    * ``closing``: set when running requests must end, because the server does.
    * ``n_body_bytes``: of the bodies that are read now.
    """

    settings: Settings
    keys: KeyRing = field(init=False)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    n_body_bytes: int = 0
    _kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the key file."""
        self.keys = KeyRing(self.settings.keys, self.settings.key_file)

    def kept(self, name: str, make: Callable[[], _T]) -> _T:
        """What is kept under ``name``; ``make`` makes it at the first call."""
        if name not in self._kept:
            self._kept[name] = make()
        kept: _T = self._kept[name]
        return kept
