"""Qwen (Bai et al. 2023)."""

from unladen.models._parts.decoder import Decoder


class Qwen(Decoder):
    """NeoX rotary embedding; the file's feed-forward length counts the gate too."""

    arch = "qwen"
    rope_style = "neox"

    def n_ff(self, layer: int) -> int:
        return super().n_ff(layer) // 2
