"""ERNIE 4.5, dense (Baidu 2025)."""

from unladen.models._parts.decoder import Decoder


class Ernie4_5(Decoder):
    """Built like llama."""

    arch = "ernie4_5"
    unbiased = frozenset({"attn_output"})
