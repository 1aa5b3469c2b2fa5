"""Qwen 3 VL with experts (Qwen team 2025), text part."""

from unladen.models._parts.decoder import Decoder


class Qwen3VlMoe(Decoder):
    """As Qwen 3 with experts: for text all sections of a position are equal."""

    arch = "qwen3vlmoe"
    rope_style = "neox"
