"""What commands share that make models."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from unladen.cli._notes import note
from unladen.cli._text import visible

if TYPE_CHECKING:
    from unladen.hub.creating import Made


def finder() -> Callable[[str], Path]:
    """Finds a model, downloads it if necessary, and shows the progress."""
    from unladen.cli._progress import Download
    from unladen.gguf.glance import glance
    from unladen.hub import INCLUDED, resolve_model

    def find(text: str) -> Path:
        return resolve_model(text, aliases=INCLUDED, progress=Download, look=glance)
    return find


def tell(made: Made) -> None:
    """Say what was made."""
    for warning in made.warnings:
        note(warning)
    print(f"{visible(made.name)} is made of {visible(os.fspath(made.weights))}")
