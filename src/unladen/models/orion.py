"""Orion (OrionStar 2024)."""

from unladen.models._parts.decoder import Decoder


class Orion(Decoder):
    """Layer norms; rotation of half-way pairs."""

    arch = "orion"
    norm_op = "layer_norm"
    rope_style = "neox"
