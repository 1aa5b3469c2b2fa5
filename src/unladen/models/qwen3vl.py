"""Qwen 3 VL (Qwen team 2025), text part."""

from unladen.models._parts.decoder import Decoder


class Qwen3Vl(Decoder):
    """As Qwen 3: for text all sections of a position are equal."""

    arch = "qwen3vl"
    rope_style = "neox"
