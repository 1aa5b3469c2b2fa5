"""Mistral 3 (2025), text part."""

from unladen.models._parts.decoder import Decoder


class Mistral3(Decoder):
    """Built like llama."""

    arch = "mistral3"
