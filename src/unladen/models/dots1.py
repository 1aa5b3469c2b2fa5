"""dots.llm1 (rednote 2025)."""

from unladen.models._parts.decoder import Decoder


class Dots1(Decoder):
    """Queries and keys are normalized per head; experts chosen by sigmoid and bias, and shared
    ones."""

    arch = "dots1"
    rope_style = "neox"
    expert_gating = "sigmoid"
    expert_normalize = False
