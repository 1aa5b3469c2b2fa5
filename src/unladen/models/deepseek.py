"""DeepSeek MoE (Dai et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class DeepSeek(Decoder):
    """The first layers are dense; later ones have many small experts and shared ones."""

    arch = "deepseek"
    expert_normalize = False
