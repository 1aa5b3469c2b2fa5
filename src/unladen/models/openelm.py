"""OpenELM (Mehta et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class OpenElm(Decoder):
    """Layers differ in heads and inner columns; rotation of half-way pairs."""

    arch = "openelm"
    rope_style = "neox"
