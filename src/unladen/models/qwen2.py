"""Qwen 2 and 2.5 (Yang et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Qwen2(Decoder):
    """NeoX rotary embedding; queries, keys and values have biases."""

    arch = "qwen2"
    n_layers_70b = 80
    rope_style = "neox"
