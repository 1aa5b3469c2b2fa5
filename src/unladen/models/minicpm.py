"""MiniCPM (Hu et al. 2024)."""

from __future__ import annotations

import math

from unladen.models._parts.scaled import ScaledDecoder


class MiniCpm(ScaledDecoder):
    """Embeddings, residuals and logits are scaled; older files have no scales, which are then the
    paper's."""

    arch = "minicpm"

    def default_scale(self, key: str) -> float:
        return {"embedding_scale": 12.0, "residual_scale": 1.4 / math.sqrt(self.n_layers),
                "logit_scale": self.n_embd / 256}[key]
