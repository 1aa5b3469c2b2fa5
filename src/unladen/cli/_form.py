"""The options that give the form of an answer: a schema or a grammar, as text or as a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unladen.errors import InvalidArgument


def form_of(json_schema: str | None, grammar: str | None) -> Any:
    """The ``response_format`` that the options give; None: any text. Raises
    :class:`InvalidArgument`."""
    if json_schema is not None and grammar is not None:
        raise InvalidArgument("both --json-schema and --grammar are given",
                              hint="an answer has one form")
    import unladen
    if json_schema is not None:
        text = json_schema.strip()
        is_text = text.startswith("{") or text in ("true", "false")
        if not is_text or os.path.isfile(json_schema):
            text = _read("--json-schema", json_schema)
        return unladen.json_schema(text)
    if grammar is not None:
        return unladen.grammar(grammar if "::=" in grammar else _read("--grammar", grammar))
    return None


def _read(option: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise InvalidArgument(f"{option} {path!r} can't be read: {reason}",
                              hint="give a file, or the text itself") from None
