"""DeepSeek V3.2 (2025)."""

from unladen.models._parts.mla import IndexedDecoder


class DeepSeek32(IndexedDecoder):
    """Latent attention to the keys that an indexer selects."""

    arch = "deepseek32"
