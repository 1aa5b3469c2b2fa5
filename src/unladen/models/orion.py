"""Orion (OrionStar 2024)."""

from unladen.models._parts.decoder import Decoder


class Orion(Decoder):
    """Layer norms; NeoX rotary embedding."""

    arch = "orion"
    norm_op = "layer_norm"
    rope_style = "neox"
