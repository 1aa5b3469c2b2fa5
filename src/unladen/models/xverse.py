"""XVERSE (2023)."""

from unladen.models._parts.decoder import Decoder


class Xverse(Decoder):
    """Built like llama."""

    arch = "xverse"
