"""The error that ends a rendering which needs too much."""

from __future__ import annotations


class LimitExceeded(Exception):
    """A template needs more than it may use: ``what`` it does, and ``why`` templates do that."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why


class Refused(Exception):
    """A template called ``raise_exception``: it doesn't accept the conversation."""
