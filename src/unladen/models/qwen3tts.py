"""Qwen 3 TTS (Qwen team 2026), the talker."""

from unladen.models._parts.decoder import Decoder


class Qwen3Tts(Decoder):
    """As Qwen 3: for text all sections of a position are equal."""

    arch = "qwen3tts"
    rope_style = "neox"
