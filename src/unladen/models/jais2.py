"""Jais 2 (2025)."""

from unladen.models._parts.decoder import Decoder


class Jais2(Decoder):
    """Layer norms; a feed-forward of squared ReLU; NeoX rotary embedding."""

    arch = "jais2"
    n_layers_70b = 68
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "relu_squared"
    gated = False
