"""InternLM 2 (Cai et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class InternLm2(Decoder):
    """Built like llama."""

    arch = "internlm2"
