"""Maincoder (2025)."""

from unladen.models._parts.decoder import Decoder


class Maincoder(Decoder):
    """Queries and keys are normalized after their rotation."""

    arch = "maincoder"
    norm_after_rope = True
