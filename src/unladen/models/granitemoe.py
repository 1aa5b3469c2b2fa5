"""Granite 3 with experts (IBM 2024)."""

from unladen.models.granite import Granite


class GraniteMoe(Granite):
    """Granite whose feed-forward is a mixture, with shared experts in some models."""

    arch = "granitemoe"
