"""Regular expressions over tensors' names: those that fit nothing, and what may have been meant."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Collection, Iterable
from typing import Final

log = logging.getLogger("unladen")

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]")
N_CLOSE: Final = 3
"""Names that a warning suggests."""


def warn_unmatched(option: str, patterns: Iterable[str], names: Collection[str], *,
                   what: str = "tensor of this model") -> None:
    """Warn, in a line for each, of ``patterns`` of ``option`` that are found in none of ``names``.

    What is no regular expression is passed over: whoever applies it refuses it.
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
    """Parts of ``names`` that look like a word of ``text``, the closest first, whatever the case.
    """
    parts = {part for name in names for part in name.split(".") if _WORD.fullmatch(part)}
    near: dict[str, None] = {}
    for word in set(_WORD.findall(text)) - parts:
        lower = word.lower()
        near |= dict.fromkeys([lower] if lower in parts else difflib.get_close_matches(
            lower, sorted(parts), N_CLOSE, 0.7))
    return list(near)[:N_CLOSE]
