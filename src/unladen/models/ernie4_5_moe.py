"""ERNIE 4.5 with experts (Baidu 2025)."""

from unladen.models._parts.decoder import Decoder


class Ernie4_5Moe(Decoder):
    """Experts in some of the layers, chosen with a bias; shared experts."""

    arch = "ernie4_5-moe"
    unbiased = frozenset({"attn_output"})
