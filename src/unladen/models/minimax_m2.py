"""MiniMax M2 (2025)."""

from unladen.models._parts.decoder import Decoder


class MiniMaxM2(Decoder):
    """Norms over all heads of queries and of keys; experts chosen by sigmoid and bias."""

    arch = "minimax-m2"
    rope_style = "neox"
    expert_gating = "sigmoid"
