"""DeepSeek V2, V3 and R1, Kimi K2 and others built like them (DeepSeek 2024)."""

from unladen.models._parts.mla import LatentDecoder


class DeepSeek2(LatentDecoder):
    """Latent attention; experts chosen by softmax, or by sigmoid and bias from groups."""

    arch = "deepseek2"
    magnitudes_are_equal = True
