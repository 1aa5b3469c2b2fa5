"""Mistral 4 (2026), text part."""

from unladen.models._parts.mla import LatentDecoder


class Mistral4(LatentDecoder):
    """Built like DeepSeek V2."""

    arch = "mistral4"
