"""MiniCPM 3 (OpenBMB 2024)."""

from unladen.models._parts.mla import LatentDecoder
from unladen.models.minicpm import MiniCpm


class MiniCpm3(MiniCpm, LatentDecoder):
    """MiniCPM with latent attention."""

    arch = "minicpm3"
    rope_style = "neox"
    yarn_in_scores = False
