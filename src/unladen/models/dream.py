"""Dream (Ye et al. 2025)."""

from unladen.models._parts.diffusion import DiffusionDecoder


class Dream(DiffusionDecoder):
    """Qwen 2 trained to fill in tokens."""

    arch = "dream"
    rope_style = "neox"
    unbiased = frozenset({"output"})
