"""Qwen 3 with experts (Qwen team 2025)."""

from unladen.models._parts.decoder import Decoder


class Qwen3Moe(Decoder):
    """Qwen 3 whose feed-forward is a mixture; the chosen experts' weights sum to 1."""

    arch = "qwen3moe"
    rope_style = "neox"
