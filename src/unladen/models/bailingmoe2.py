"""Ling 2 (inclusionAI 2025)."""

from unladen.models._parts.decoder import Decoder


class BailingMoe2(Decoder):
    """Queries and keys are normalized per head; experts are chosen from groups by sigmoid and bias;
    there are shared experts."""

    arch = "bailingmoe2"
    rope_style = "neox"
    expert_gating = "sigmoid"
    expert_normalize = False
