"""Turns errors of the package into faults of a request."""

from __future__ import annotations

import re
import traceback
from typing import Final

from unladen.errors import (
    Cancelled,
    ConstraintFailed,
    ContextOverflow,
    DeadlineExceeded,
    DeviceLost,
    InvalidArgument,
    ModelfileError,
    ModelNotFound,
    OutOfMemory,
    QueueFull,
    TemplateError,
    UnladenError,
    UnsupportedModel,
    UnsupportedOp,
    UnsupportedQuant,
)
from unladen.hub.failures import Unreachable
from unladen.parameters.chat import CHAT
from unladen.server.faults import Fault, Kind

_NAMES: Final = {*CHAT.parameters, "messages", "tools", "tool_choice", "prompt", "suffix", "n",
                 "inputs", "dimensions", "query", "documents"}
"""Fields that an error may be about."""
_PLACE: Final = re.compile(r"(?:the )?(?P<name>[a-z_]+)(?P<rest>(?:\[\d+\]|\.\w+)*)")
_KINDS: Final[tuple[tuple[type[UnladenError], Kind], ...]] = (
    (ContextOverflow, "overflow"), (InvalidArgument, "bad_request"),
    (TemplateError, "bad_request"), (ModelfileError, "bad_request"),
    (ConstraintFailed, "bad_request"),
    (DeadlineExceeded, "deadline"), (QueueFull, "full"), (DeviceLost, "worker_lost"),
    (OutOfMemory, "out_of_memory"), (Unreachable, "offline"),
    (ModelNotFound, "unknown_model"), (Cancelled, "closing"),
    (UnsupportedModel, "unsupported"), (UnsupportedOp, "unsupported"),
    (UnsupportedQuant, "unsupported"))
"""The kinds of errors that have one; the others are ``internal``."""


def fault_of(error: BaseException) -> Fault:
    """The fault that ``error`` is for its request. Unknown errors are printed."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, UnicodeError):
        return Fault("bad_request", f"a text isn't Unicode: {error.reason}"
                     if isinstance(error, UnicodeEncodeError) else "a text isn't Unicode",
                     hint="send whole characters, no halves of surrogate pairs")
    if not isinstance(error, UnladenError):
        traceback.print_exception(error)
        return Fault("internal", f"{type(error).__name__}: {error}",
                     hint="the server's log says where")
    kind: Kind = next((kind for each, kind in _KINDS if isinstance(error, each)), "internal")
    param = _param(error) if kind == "bad_request" else ""
    n_tokens, limit = ((error.n_tokens, error.limit) if isinstance(error, ContextOverflow) else
                       (0, 0))
    return Fault(kind, error.message, hint=error.hint, param=param, n_tokens=n_tokens, limit=limit)


def _param(error: UnladenError) -> str:
    """The field that ``error`` is about, as ``messages.0.role``; "" where it isn't known."""
    if isinstance(error, TemplateError):
        return "messages"
    if isinstance(error, ConstraintFailed):
        return "response_format"
    found = _PLACE.match(error.message)
    if found is None or found["name"] not in _NAMES:
        return ""
    return found["name"] + re.sub(r"\[(\d+)\]", r".\1", found["rest"])
