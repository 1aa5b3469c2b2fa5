"""OpenELM (Mehta et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class OpenElm(Decoder):
    """Layers differ in heads and hidden units; NeoX rotary embedding."""

    arch = "openelm"
    rope_style = "neox"
