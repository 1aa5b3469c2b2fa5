"""Hunyuan 3 (Tencent 2026)."""

from unladen.models._parts.decoder import Decoder


class HyV3(Decoder):
    """Queries and keys are normalized per head; experts are chosen by sigmoid and bias; there is a
    shared expert."""

    arch = "hy_v3"
    rope_style = "neox"
    expert_gating = "sigmoid"
    expert_normalize = False
    spare = frozenset({"ffn_gate", "ffn_up", "ffn_down"})  # of layers with experts
