"""Qwen 3, dense (Qwen team 2025)."""

from unladen.models._parts.decoder import Decoder


class Qwen3(Decoder):
    """NeoX rotary embedding; queries and keys are normalized per head."""

    arch = "qwen3"
    rope_style = "neox"
