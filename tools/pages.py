"""Writes generated pages, or names those that are out of date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(pages: Mapping[Path, str], tool: str) -> int:
    """Write each text to its path. With ``--check`` on the command line nothing is written: pages
    that differ are named, with the ``tool`` that makes them. Returns the exit code."""
    if "--check" not in sys.argv[1:]:
        for path, text in pages.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in pages.items()
             if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path} is out of date: run tools/{tool}", file=sys.stderr)
    return int(bool(stale))
