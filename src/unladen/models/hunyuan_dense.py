"""Hunyuan, dense (Tencent 2025)."""

from unladen.models._parts.decoder import Decoder


class HunyuanDense(Decoder):
    """Queries and keys are normalized after their rotation, of half-way pairs."""

    arch = "hunyuan-dense"
    rope_style = "neox"
    norm_after_rope = True
