"""Phi 3 and 4 (Abdin et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Phi3(Decoder):
    """Rotation of half-way pairs, stretched by longrope; the gate lies in the same matrix as what
    it gates."""

    arch = "phi3"
    rope_style = "neox"
