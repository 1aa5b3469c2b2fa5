"""The public functions and classes: what programs call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unladen.api.model import TINY, Model
from unladen.api.paper import plan
from unladen.api.session import Session
from unladen.api.stream import Stream

if TYPE_CHECKING:
    from unladen.schedule.show.report import PlanReport as PlanReport

__all__ = ["TINY", "Model", "Session", "Stream", "plan"]
