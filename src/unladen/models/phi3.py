"""Phi 3 and 4 (Abdin et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Phi3(Decoder):
    """NeoX rotary embedding, scaled by longrope; the gate and ``ffn_up`` share one matrix."""

    arch = "phi3"
    rope_style = "neox"
