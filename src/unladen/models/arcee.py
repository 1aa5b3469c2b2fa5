"""Arcee AFM (2025)."""

from unladen.models._parts.decoder import Decoder


class Arcee(Decoder):
    """A feed-forward of squared ReLU."""

    arch = "arcee"
    act = "relu_squared"
    gated = False
