"""What is remembered between steps: paged keys and values, shared prefixes."""

from unladen.cache.blocks import BlockPool
from unladen.cache.sequence import CachedSequence

__all__ = ["BlockPool", "CachedSequence"]
