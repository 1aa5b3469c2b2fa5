"""Warns of regular expressions that match no tensor's name, and suggests names."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Collection, Iterable
from typing import Final

log = logging.getLogger("unladen")

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]")
"""A word in a regular expression or a tensor's name."""
N_CLOSE: Final = 3
"""Names that a warning suggests at most."""


def warn_unmatched(option: str, patterns: Iterable[str], names: Collection[str], *,
                   what: str = "tensor of this model") -> None:
    """Log a warning for each of ``patterns`` that is found in none of ``names``.

    ``option`` is where the patterns come from, ``what`` the kind of thing that has the names. An
    invalid pattern is skipped: the code that applies it raises an error.
    """
    for pattern in patterns:
        try:
            found = any(map(re.compile(pattern).search, names))
        except re.error:
            continue
        if not found:
            near = close_names(pattern, names)
            log.warning("%s: %r is found in no %s%s", option, pattern, what,
                        f" (did you mean {' or '.join(near)}?)" if near else "")


def close_names(text: str, names: Iterable[str]) -> list[str]:
    """Parts of ``names`` that resemble a word of ``text``, the closest first; case is ignored."""
    parts = {part for name in names for part in name.split(".") if _WORD.fullmatch(part)}
    near: dict[str, None] = {}
    for word in set(_WORD.findall(text)) - parts:
        lower = word.lower()
        near |= dict.fromkeys([lower] if lower in parts else difflib.get_close_matches(
            lower, sorted(parts), N_CLOSE, 0.7))
    return list(near)[:N_CLOSE]
