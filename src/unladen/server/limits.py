"""How much each key may ask: requests in a minute, and at once."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from unladen.server.faults import Fault
from unladen.server.keys import Key


@dataclass(slots=True)
class _Use:
    """Requests that a key may make at once, as of ``when``; and those that it has running."""

    left: float
    when: float
    running: int = 0


@dataclass(slots=True)
class KeyLimits:
    """Counts the requests of keys. ``clock``: seconds, as :func:`time.monotonic`."""

    clock: Callable[[], float] = time.monotonic
    _uses: dict[str, _Use] = field(default_factory=dict)

    @contextlib.contextmanager
    def request(self, key: Key) -> Iterator[None]:
        """Count a request of ``key`` for as long as the context lasts. Raises a ``Fault`` of kind
        ``full`` where that is more than it may have."""
        now = self.clock()
        rate = key.requests_per_minute
        use = self._uses.setdefault(key.name, _Use(float(rate or 0), now))
        if key.concurrent is not None and use.running >= key.concurrent:
            raise Fault("full", f"this key may have {key.concurrent} requests at once",
                        hint="wait until one has ended", retry_after=1)
        if rate is not None:
            use.left = min(float(rate), use.left + (now - use.when) * rate / 60)
            use.when = now
            if use.left < 1:
                raise Fault("full", f"this key may make {rate} requests in a minute",
                            hint="try again later",
                            retry_after=math.ceil((1 - use.left) * 60 / rate))
            use.left -= 1
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1
