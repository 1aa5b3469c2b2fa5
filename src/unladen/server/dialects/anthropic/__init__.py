"""Anthropic's API: messages, and the counting of their tokens."""

from __future__ import annotations

from unladen.server.dialects.anthropic import messages
from unladen.server.dialects.anthropic.errors import error
from unladen.server.endpoint import Dialect

DIALECT = Dialect("anthropic", messages.ENDPOINTS, ("/v1/messages",), error,
                  id_header="request-id")
