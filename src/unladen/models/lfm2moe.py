"""LFM 2 with experts (Liquid AI 2025)."""

from unladen.models.lfm2 import Lfm2


class Lfm2Moe(Lfm2):
    """LFM 2 whose feed-forward is a mixture, but for the first layers."""

    arch = "lfm2moe"
