"""What is remembered between steps: paged keys and values, shared prefixes."""

from unladen.cache.blocks import BlockPool
from unladen.cache.sequence import CachedSequence
from unladen.cache.slots import SlotPool
from unladen.cache.windows import WindowPool

__all__ = ["BlockPool", "CachedSequence", "SlotPool", "WindowPool"]
