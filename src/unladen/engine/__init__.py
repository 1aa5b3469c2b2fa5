"""The loop: requests become batches, batches become tokens, tokens become text."""

from unladen.engine.engine import Engine
from unladen.engine.request import Request
from unladen.engine.session import Session

__all__ = ["Engine", "Request", "Session"]
