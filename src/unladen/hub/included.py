"""The models that come with the package, by the names that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

_DATA: Final = Path(__file__).parents[1] / "data"

INCLUDED: Final[Mapping[str, Path]] = MappingProxyType(
    {"tiny": _DATA / "tiny.gguf", "tiny-chat": _DATA / "chat.gguf"})
"""``tiny`` tells stories, ``tiny-chat`` answers messages and calls tools."""
