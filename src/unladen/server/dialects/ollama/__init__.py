"""Ollama's API, one JSON object a line."""

from __future__ import annotations

from unladen.server.dialects.ollama import changing, chat, embed, generate, models
from unladen.server.dialects.ollama.shapes import error
from unladen.server.endpoint import Dialect

DIALECT = Dialect("ollama", [*chat.ENDPOINTS, *generate.ENDPOINTS, *embed.ENDPOINTS,
                             *models.ENDPOINTS, *changing.ENDPOINTS], ("/api/",), error)
