"""Which abilities of a device kernels use: those that suit it, or those that the environment
names."""

from __future__ import annotations

import os

from unladen.errors import InvalidArgument


def chosen(variable: str, there: frozenset[str], device: str,
           usual: frozenset[str] | None = None) -> frozenset[str]:
    """The abilities that the environment ``variable`` names, with commas between them; none for
    "none". Where it isn't set, those of ``there`` that are ``usual``, by default all.

    ``there``: what ``device`` has. Raises :class:`InvalidArgument` for a name that isn't one of
    these."""
    text = os.environ.get(variable)
    if text is None:
        return there if usual is None else there & usual
    asked = frozenset(text.split(",")) - {"none", ""}
    if not asked <= there:
        raise InvalidArgument(
            f"{variable} asks for {', '.join(sorted(asked - there))}, which {device} lacks",
            hint=f"use some of {', '.join(sorted(there))}, or none" if there else "use none")
    return asked
