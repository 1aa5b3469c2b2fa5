"""Tells that a download goes on, so that a long one isn't taken for a worker that hangs."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Final

TOLD_SECONDS: Final = 0.2
"""Seconds between two messages on a download: as often as a client shows it."""


class Arrival:
    """Takes the place of tqdm in the hub's client: ``told`` is called when bytes arrive."""

    told: ClassVar[Callable[[], None]]

    def __init__(self, *args: object, total: float | None = None, initial: float = 0,
                 **options: object) -> None:
        self.n, self.total = initial, total

    def update(self, n: float | None = 1) -> None:
        """``n`` more bytes have arrived."""
        self.n += n or 0
        type(self).told()

    def reset(self, total: float | None = None) -> None:
        """Start again at 0."""
        self.n, self.total = 0, total

    def refresh(self, *args: object, **options: object) -> None:
        """Does nothing: nobody looks at it."""

    set_description = set_description_str = set_postfix = set_postfix_str = close = refresh

    def __enter__(self) -> Arrival:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def arrival(told: Callable[[], None]) -> type[Arrival]:
    """A class for the hub's client that calls ``told``."""
    return type("Arrival", (Arrival,), {"told": staticmethod(told)})
