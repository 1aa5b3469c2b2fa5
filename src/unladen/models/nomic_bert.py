"""Nomic Embed (Nussbaum et al. 2024)."""

from unladen.models._parts.encoder import Encoder


class NomicBert(Encoder):
    """NeoX rotary embedding."""

    arch = "nomic-bert"
    rope_style = "neox"
