"""What ends with a ``with``, or when it is dropped."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closes:
    """Base of objects that are closed at the end of a ``with``, and when they are dropped."""

    def close(self) -> None:
        """End it. Closing it again does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
