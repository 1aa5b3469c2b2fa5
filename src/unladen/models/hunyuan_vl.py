"""Hunyuan VL (Tencent 2025), text part."""

from unladen.models.hunyuan_dense import HunyuanDense


class HunyuanVl(HunyuanDense):
    """As Hunyuan: for text all sections of a position are equal."""

    arch = "hunyuan_vl"
