"""dots.llm1 (rednote 2025)."""

from unladen.models._parts.decoder import Decoder


class Dots1(Decoder):
    """Queries and keys are normalized per head; experts are chosen by sigmoid and bias; there are
    shared experts."""

    arch = "dots1"
    rope_style = "neox"
    expert_gating = "sigmoid"
    expert_normalize = False
