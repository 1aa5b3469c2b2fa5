"""Pocket TTS (Kyutai 2026), the language model."""

from unladen.models._parts.decoder import Decoder


class PocketTts(Decoder):
    """Layer norms; plain GELU."""

    arch = "pockettts"
    norm_op = "layer_norm"
    act = "gelu"
    gated = False
