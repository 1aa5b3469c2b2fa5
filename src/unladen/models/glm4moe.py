"""GLM 4.5 and 4.6 (Zeng et al. 2025)."""

from unladen.models._parts.decoder import Decoder


class Glm4Moe(Decoder):
    """The first layers are dense; later ones choose experts by sigmoid and bias, and have shared
    ones. For text all sections of a position are equal."""

    arch = "glm4moe"
    rope_style = "neox"
    ffn_norm = "post_attention_norm"
    expert_gating = "sigmoid"
    expert_normalize = False
