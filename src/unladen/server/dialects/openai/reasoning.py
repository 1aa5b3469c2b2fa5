"""OpenAI's efforts of reasoning."""

from __future__ import annotations

from unladen.server.faults import Fault

EFFORTS: dict[str, bool | str] = {
    "none": False, "minimal": "low", "low": "low", "medium": "medium", "high": "high",
    "xhigh": "high"}
"""The efforts, and what :meth:`unladen.Model.chat` takes for them."""


def effort_of(word: str, param: str) -> bool | str:
    """The parameter ``reasoning`` for an effort. Raises a ``Fault`` for an unknown one."""
    if word not in EFFORTS:
        raise Fault("bad_request", f"the effort {word[:40]!r} is unknown",
                    hint=f"there are {', '.join(EFFORTS)}", param=param)
    return EFFORTS[word]
