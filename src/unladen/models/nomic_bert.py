"""Nomic Embed (Nussbaum et al. 2024)."""

from unladen.models._parts.encoder import Encoder


class NomicBert(Encoder):
    """Rotation of half-way pairs."""

    arch = "nomic-bert"
    rope_style = "neox"
