"""OpenAI's API: chat completions, completions, responses, embeddings, models."""

from __future__ import annotations

from unladen.server.dialects.openai import (
    chat,
    completions,
    embeddings,
    models,
    responses,
)
from unladen.server.dialects.openai.errors import error
from unladen.server.endpoint import Dialect

DIALECT = Dialect("openai", [*chat.ENDPOINTS, *completions.ENDPOINTS, *embeddings.ENDPOINTS,
                             *models.ENDPOINTS, *responses.ENDPOINTS], ("/v1/", "/chat/"), error)
