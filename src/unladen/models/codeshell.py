"""CodeShell (Xie et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class CodeShell(Decoder):
    """Layer norms; plain GELU; NeoX rotary embedding."""

    arch = "codeshell"
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "gelu"
    gated = False
