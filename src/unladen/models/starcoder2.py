"""StarCoder 2 (Lozhkov et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class StarCoder2(Decoder):
    """Layer norms; plain GELU; NeoX rotary embedding."""

    arch = "starcoder2"
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "gelu"
    gated = False
