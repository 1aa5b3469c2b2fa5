"""Tells Go templates from templates in Jinja and from names of formats."""

from __future__ import annotations

import re
from typing import Final

_JINJA: Final = re.compile(r"\{%|\{#|\{\{-?\s*(?:bos_token|eos_token|messages|message)\b")
"""Text that only templates in Jinja have."""
_GO: Final = re.compile(
    r"\{\{-?\s*(?:/\*|\.|\$|\(|(?:if|else|end|range|with|define|template|block|break|continue|json|"
    r"currentDate|print|printf|println|index|slice|len|and|or|not|eq|ne|lt|le|gt|ge)\b)")
"""Text that only Go templates have."""


def is_go(text: str) -> bool:
    """Whether the template ``text`` is written for Go."""
    return not _JINJA.search(text) and _GO.search(text) is not None
