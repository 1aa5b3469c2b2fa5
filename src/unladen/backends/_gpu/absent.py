"""Whether a maker's cards are surely absent, so that no driver of the maker's would help."""

from __future__ import annotations

import sys
from pathlib import Path

from unladen.backends._gpu import drivers

WINDOWS_CARDS = Path("/dev/dxg")
"""The file through which Windows' Linux (WSL2) reaches the cards of Windows."""


def lacks_cards(maker: str) -> bool:
    """Whether this machine surely has no card of ``maker``, a name of :func:`drivers.cards`: Linux
    shows its bus, without one. Windows' Linux shows no cards there, and boards have theirs
    elsewhere with a driver of their own."""
    return (sys.platform == "linux" and any(drivers.PCI_DEVICES.glob("*"))
            and not WINDOWS_CARDS.exists() and maker not in drivers.cards())
