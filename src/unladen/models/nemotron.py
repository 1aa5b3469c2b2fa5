"""Nemotron 4 (Parmar et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Nemotron(Decoder):
    """Layer norms; a feed-forward of squared ReLU; NeoX rotary embedding."""

    arch = "nemotron"
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "relu_squared"
    gated = False
