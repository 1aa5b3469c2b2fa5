"""The libggml that tests use: the one that UNLADEN_GGML names, or one that a package brought."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from unladen.backends.ggml import library
from unladen.errors import BackendNotInitialised

PACKAGES = Path(sysconfig.get_path("purelib"))


def folder() -> Path | None:
    """Its folder, None where there is none."""
    named = os.environ.get(library.VARIABLE)
    if named:
        return Path(named)
    places = (PACKAGES, PACKAGES / "llama_cpp/lib")
    return next((place for place in places if (place / library.NAMES[0]).exists()), None)


def load() -> library.Library:
    """Load it as a user's process would; raises :class:`BackendNotInitialised`."""
    place = folder()
    if place is None:
        raise BackendNotInitialised("no libggml", hint="pip install --group oracle")
    if library.load.cache_info().currsize == 0:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(library.VARIABLE, str(place))
            library.found.cache_clear()
            library.load()
    return library.load()
