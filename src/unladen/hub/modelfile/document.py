"""A parsed Modelfile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from unladen.hub.modelfile.values import KEY_AND_VALUE, ONE_VALUE, Typed

Value: TypeAlias = str | tuple[str, str]
"""A text, or the word and the text of instructions such as PARAMETER."""


@dataclass(frozen=True, slots=True)
class Modelfile:
    """The instructions of a Modelfile, all of them checked.

    ``instructions``: (name in upper case, value) in the file's order; the value of PARAMETER,
    MESSAGE, THINKING, TOOLFORMAT and CAPABILITY is a pair of texts. ``warnings``: one sentence for
    each instruction that has no effect.
    """

    instructions: tuple[tuple[str, Value], ...]
    warnings: tuple[str, ...] = ()

    def every(self, name: str) -> tuple[str, ...]:
        """The values of all instructions called ``name``, which take one value."""
        return tuple(v for n, v in self.instructions if n == name and isinstance(v, str))

    def last(self, name: str) -> Typed | None:
        """The value of the last instruction called ``name``, with its type; None without one."""
        values = self.every(name)
        return ONE_VALUE[name](values[-1]) if values else None

    @property
    def sources(self) -> tuple[str, ...]:
        """The values of FROM: the model, and perhaps its projector."""
        return self.every("FROM")

    @property
    def parameters(self) -> dict[str, Typed | list[str]]:
        """The parameters that have an effect, with their types; ``stop`` is a list."""
        found: dict[str, Typed | list[str]] = {}
        stops: list[str] = []
        for key, text in self._pairs("PARAMETER"):
            if key == "stop":
                stops.append(text)
            elif key in KEY_AND_VALUE["PARAMETER"]:
                found[key] = KEY_AND_VALUE["PARAMETER"][key](text)
        return {**found, "stop": stops} if stops else found

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages that every conversation begins with."""
        return [{"role": role, "content": text} for role, text in self._pairs("MESSAGE")]

    def settings(self, name: str) -> dict[str, Typed]:
        """The values of THINKING, TOOLFORMAT or CAPABILITY by their words."""
        return {key: KEY_AND_VALUE[name][key](text) for key, text in self._pairs(name)}

    def _pairs(self, name: str) -> Sequence[tuple[str, str]]:
        return [v for n, v in self.instructions if n == name and isinstance(v, tuple)]
