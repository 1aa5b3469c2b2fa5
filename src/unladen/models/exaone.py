"""EXAONE 3 (LG AI Research 2024)."""

from unladen.models._parts.decoder import Decoder


class Exaone(Decoder):
    """NeoX rotary embedding."""

    arch = "exaone"
    rope_style = "neox"
