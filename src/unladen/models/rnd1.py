"""RND1 (Radical Numerics 2025)."""

from unladen.models._parts.diffusion import DiffusionDecoder


class Rnd1(DiffusionDecoder):
    """Qwen 3 with experts, trained to fill in tokens."""

    arch = "rnd1"
    rope_style = "neox"
