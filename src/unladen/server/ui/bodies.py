"""The bodies of requests to ``/ui/api``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

MOST_REFS = 200
"""Files that one request may ask about."""


class WithOptions(BaseModel):
    """``options``: parameters of :class:`unladen.Model` by name, as JSON."""

    options: dict[str, Any] = Field(default_factory=dict)


class Nothing(BaseModel):
    """A request without fields."""


class PlanBody(WithOptions):
    """``ref``: a model of the library, or one that can be asked for."""

    ref: str


class FitBody(BaseModel):
    """``refs``: models of the library or of the hub."""

    refs: list[str] = Field(max_length=MOST_REFS)


class DownloadBody(BaseModel):
    """``ref``: a model on the hub, as org/repo:QUANT."""

    ref: str


class ActionBody(BaseModel):
    """``action``: what to do with a download."""

    action: Literal["pause", "resume"]
