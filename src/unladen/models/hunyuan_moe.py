"""Hunyuan A13B (Tencent 2025)."""

from unladen.models._parts.decoder import Decoder


class HunyuanMoe(Decoder):
    """Queries and keys are normalized after they are rotated; experts and a shared expert."""

    arch = "hunyuan-moe"
    rope_style = "neox"
    norm_after_rope = True
