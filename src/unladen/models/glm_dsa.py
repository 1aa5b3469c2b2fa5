"""GLM 5 (Zhipu 2026)."""

from unladen.models._parts.mla import IndexedDecoder


class GlmDsa(IndexedDecoder):
    """Latent attention to the keys that an indexer selects; experts chosen by sigmoid and bias."""

    arch = "glm-dsa"
    expert_gating = "sigmoid"
