"""Qwen 2 and 2.5 VL (Wang et al. 2024), text part."""

from unladen.models._parts.decoder import Decoder


class Qwen2Vl(Decoder):
    """As Qwen 2: for text all sections of a position are equal."""

    arch = "qwen2vl"
    rope_style = "neox"
    unbiased = frozenset({"output"})

    def read_eps(self) -> float:
        # Some files don't have the key.
        return self.hparams.float("attention.layer_norm_rms_epsilon", 0.0)
