"""The native names of llama-server: completion, infill, tokens, ranks, properties."""

from __future__ import annotations

from unladen.server.dialects.native import completion, models, tokens, vectors
from unladen.server.dialects.native.shapes import error
from unladen.server.endpoint import Dialect

DIALECT = Dialect("native", [*completion.ENDPOINTS, *tokens.ENDPOINTS, *vectors.ENDPOINTS,
                             *models.ENDPOINTS], ("/",), error)
