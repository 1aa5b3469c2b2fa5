"""How far something is, on one line of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen.types import LoadProgress

SHORT_S = 0.5
"""Of what takes no longer nothing is said."""

CLEAR = "\r\x1b[K"


def loading_line() -> Callable[[LoadProgress], None] | None:
    """Shows how far the loading is and how long it will take; None where stderr is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None

    def show(now: LoadProgress) -> None:
        if now.seconds < SHORT_S:
            return
        if now.done_bytes == now.total_bytes:
            text = ""
        else:
            left = "" if now.eta_s is None else f", {now.eta_s:.0f} s left"
            text = f"loading: {now.fraction:.0%} of {now.total_bytes / 1e6:.0f} MB{left}"
        print(CLEAR + text, end="\r", file=sys.stderr, flush=True)
    return show
