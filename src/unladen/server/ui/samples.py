"""Keeps a sample of what the server does for each of the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from unladen.server.core import Card
from unladen.server.ui.shapes import Columns, Sample

KEPT: Final = 3600
"""Samples that are kept: one a second."""
_COUNTS: Final = ("n_prefilled", "n_written", "n_prompt", "n_cached")


class Samples:
    """The samples of a server."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=KEPT)
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
        self._kept.append(sample)
        return sample

    def columns(self, seconds: float) -> Columns:
        """The samples of the last ``seconds``."""
        begin = time.time() - seconds
        kept = [sample for sample in self._kept if sample["time"] >= begin]
        devices = dict.fromkeys(name for sample in kept for name in sample["bytes"])
        return Columns(
            time=[each["time"] for each in kept],
            decode_tps=[each["decode_tps"] for each in kept],
            prefill_tps=[each["prefill_tps"] for each in kept],
            running=[each["running"] for each in kept],
            waiting=[each["waiting"] for each in kept],
            prompt_tokens=[each["prompt_tokens"] for each in kept],
            cached_tokens=[each["cached_tokens"] for each in kept],
            bytes={name: [each["bytes"].get(name, 0) for each in kept] for name in devices})
