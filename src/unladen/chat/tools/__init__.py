"""How models write tool calls: one file for each dialect, found by scanning.

:func:`dialect_for` chooses one by what a template's text says.
"""

from __future__ import annotations

from unladen import discover
from unladen.chat.tools.base import Dialect

__all__ = ["Dialect", "dialect_for", "dialects"]


def dialects() -> list[Dialect]:
    """One of each dialect, sorted by name."""
    found = discover.search("unladen.chat.tools", "dialects",
                            discover.by_class(Dialect, lambda cls: [cls.name])).named()
    return [found[name]() for name in sorted(found)]


def dialect_for(source: str) -> Dialect | None:
    """The dialect whose signs the text ``source`` of a template has; where several have, the one
    with the longest signs. None if there is none."""
    fitting = [(sum(map(len, dialect.signs)), dialect.name, dialect) for dialect in dialects()
               if dialect.signs and all(sign in source for sign in dialect.signs)]
    return max(fitting, default=(0, "", None), key=lambda f: f[:2])[2]
