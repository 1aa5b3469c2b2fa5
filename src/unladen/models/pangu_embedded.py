"""openPangu-Embedded (Huawei 2025)."""

from unladen.models._parts.decoder import Decoder


class PanguEmbedded(Decoder):
    """NeoX rotary embedding."""

    arch = "pangu-embedded"
    rope_style = "neox"

    def rope_factors(self, layer: int) -> str:
        return ""
