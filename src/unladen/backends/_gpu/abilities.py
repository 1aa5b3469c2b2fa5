"""Which abilities of a device kernels use: those that suit it, or those that the environment
names."""

from __future__ import annotations

import os
from collections.abc import Iterable

from unladen.errors import InvalidArgument


def chosen(variable: str, there: frozenset[str], device: str,
           usual: frozenset[str] | None = None, *, known: Iterable[str]) -> frozenset[str]:
    """The abilities that the environment ``variable`` names, with commas between them; none for
    "none". Where it isn't set, those of ``there`` that are ``usual``, by default all.

    ``there``: what ``device`` has. ``known``: all that a device can have. Raises
    :class:`InvalidArgument` for a name that isn't one of these."""
    text = os.environ.get(variable)
    if text is None:
        return there if usual is None else there & usual
    asked = frozenset(word.strip() for word in text.split(",")) - {"none", ""}
    unknown = sorted(asked - there - frozenset(known))
    if unknown:
        are = "is no ability" if len(unknown) == 1 else "are no abilities"
        raise InvalidArgument(f"{variable}: {', '.join(unknown)} {are}",
                              hint=f"there are {', '.join(sorted(known))}, and none")
    if not asked <= there:
        raise InvalidArgument(
            f"{variable} asks for {', '.join(sorted(asked - there))}, which {device} lacks",
            hint=f"use some of {', '.join(sorted(there))}, or none" if there else "use none")
    return asked
