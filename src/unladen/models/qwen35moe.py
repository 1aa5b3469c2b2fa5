"""Qwen 3.5 and 3.6 with experts, text part (Qwen team 2026)."""

from unladen.models.qwen35 import Qwen35


class Qwen35Moe(Qwen35):
    """Qwen 3.5 whose feed-forward is a mixture with a gated shared expert."""

    arch = "qwen35moe"
