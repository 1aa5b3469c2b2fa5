"""Keeps a sample of what the server does for each of the last seconds."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unladen.server.core import Card
from unladen.server.ui.shapes import Columns, Sample

KEPT: Final = 3600
"""Samples that are kept: one a second."""
_COUNTS: Final = ("n_prefilled", "n_written", "n_prompt", "n_cached")
_KINDS: Final = {
    "time": "d", "decode_tps": "d", "prefill_tps": "d", "running": "q", "waiting": "q",
    "prompt_tokens": "q", "cached_tokens": "q"}
"""Columns and the types of their numbers, as :mod:`array` names them."""


def _column(kind: str) -> array[Any]:
    """Room for all samples: memory is taken at once, so that a server that runs grows no more."""
    return array(kind, bytes(8 * KEPT))


@dataclass(slots=True)
class _Device:
    """Bytes on a device, and the number of the last sample in which a model was there."""

    column: array[int] = field(default_factory=lambda: _column("q"))
    last: int = -1


class Samples:
    """The samples of a server. Sample number n is in row n modulo :data:`KEPT` of each column."""

    def __init__(self) -> None:
        self._n_taken = 0
        self._columns = {name: _column(kind) for name, kind in _KINDS.items()}
        self._devices: dict[str, _Device] = {}
        self._counted: dict[str, int] = {}
        self._taken = time.monotonic()

    def take(self, cards: Sequence[Card]) -> Sample:
        """Take a sample of the models ``cards``: what they did since the last one."""
        now = time.monotonic()
        seconds, self._taken = max(now - self._taken, 1e-3), now
        counted = {name: sum(getattr(card, name) for card in cards) for name in _COUNTS}
        # Models that are in no settings can be forgotten, and their counts with them.
        new = {name: max(0, n - self._counted.get(name, 0)) for name, n in counted.items()}
        self._counted = counted
        n_bytes: dict[str, int] = {}
        for card in cards:
            for device, n in card.device_bytes.items() if card.plan else ():
                n_bytes[device] = n_bytes.get(device, 0) + n
        sample = Sample(
            time=round(time.time(), 2), decode_tps=round(new["n_written"] / seconds, 2),
            prefill_tps=round(new["n_prefilled"] / seconds, 2),
            running=sum(card.running for card in cards),
            waiting=sum(card.waiting for card in cards), prompt_tokens=new["n_prompt"],
            cached_tokens=new["n_cached"], bytes=n_bytes)
        self._keep(sample)
        return sample

    def _keep(self, sample: Sample) -> None:
        number, row = self._n_taken, self._n_taken % KEPT
        self._n_taken += 1
        for name, column in self._columns.items():
            column[row] = sample[name]  # type: ignore[literal-required]
        for name in sample["bytes"]:
            self._devices.setdefault(name, _Device()).last = number
        for name, device in list(self._devices.items()):
            device.column[row] = sample["bytes"].get(name, 0)
            if device.last <= number - KEPT:
                del self._devices[name]

    def columns(self, seconds: float) -> Columns:
        """The samples of the last ``seconds``."""
        begin, times = time.time() - seconds, self._columns["time"]
        kept = [n for n in range(max(0, self._n_taken - KEPT), self._n_taken)
                if times[n % KEPT] >= begin]
        rows = [n % KEPT for n in kept]
        found: Any = {name: [column[row] for row in rows]
                      for name, column in self._columns.items()}
        found["bytes"] = {
            name: [device.column[row] for row in rows]
            for name, device in self._devices.items() if kept and device.last >= kept[0]}
        columns: Columns = found
        return columns
