"""Qwen 1.5 and 2 with experts (Qwen team 2024)."""

from unladen.models._parts.decoder import Decoder


class Qwen2Moe(Decoder):
    """Biases of queries, keys and values; experts' weights aren't normalized after the softmax;
    shared experts with a gate."""

    arch = "qwen2moe"
    rope_style = "neox"
    expert_normalize = False
