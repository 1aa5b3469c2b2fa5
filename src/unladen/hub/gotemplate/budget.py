"""Limits on what a template may use."""

from __future__ import annotations

from typing import Final

from unladen.errors import TemplateError

STEPS: Final = 400_000
"""Steps that every rendering may take; about a second."""
STEPS_OF_INPUT: Final = 8
"""More steps for each character of the conversation."""
OUTPUT: Final = 4 << 20
"""Characters that every rendering may write."""
OUTPUT_OF_INPUT: Final = 16
"""More characters of output for each character of the conversation."""
DEPTH: Final = 100
"""Blocks, parentheses and calls of templates within one another. Each takes up to four of the
about 1,000 calls that Python allows within one another."""
CHARS_A_STEP: Final = 32
"""Characters, or items of a list, that a function may copy in one step."""


class Failed(Exception):
    """Rendering ends here; the text says why."""


class Budget:
    """Counts what a rendering uses. ``input_size``: characters of the conversation. Raises
    :class:`Failed` where it is too much."""

    __slots__ = ("_chars", "_depth", "_max_chars", "_steps")

    def __init__(self, input_size: int) -> None:
        self._steps = STEPS + STEPS_OF_INPUT * input_size
        self._max_chars = OUTPUT + OUTPUT_OF_INPUT * input_size
        self._chars = self._max_chars
        self._depth = 0

    def step(self, n_copied: int = 0) -> None:
        """Count a step that copies ``n_copied`` characters or items."""
        self._steps -= 1 + n_copied // CHARS_A_STEP
        if self._steps < 0:
            raise Failed("it takes too many steps")

    def text(self, n: int) -> None:
        """Count the work of a text of ``n`` characters, before it is made."""
        if n > self._max_chars:
            raise Failed("it makes a text that is too long")
        self.step(n)

    def write(self, n: int) -> None:
        """Count ``n`` characters of output."""
        self._chars -= n
        if self._chars < 0:
            raise Failed("it writes too much")

    def enter(self) -> None:
        """Begin a block, a parenthesis or a call of a template; :meth:`leave` ends it."""
        self._depth += 1
        if self._depth > DEPTH:
            raise Failed(f"blocks and templates nest more than {DEPTH} deep")
        self.step()

    def leave(self) -> None:
        """End what :meth:`enter` began."""
        self._depth -= 1


def error_at(line: int, why: str) -> TemplateError:
    """The error for a template that is wrong in ``line``."""
    return TemplateError(why, line=line, hint="correct it, or pass another Go template")
