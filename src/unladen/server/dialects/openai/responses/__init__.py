"""``/v1/responses``: answers as items, with a history that the server keeps."""

from __future__ import annotations

from unladen.server.dialects.openai.responses import routes

ENDPOINTS = routes.ENDPOINTS
"""The routes."""
