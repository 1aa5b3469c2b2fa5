"""Nemotron-H with experts (NVIDIA 2025)."""

from unladen.models.nemotron_h import NemotronH


class NemotronHMoe(NemotronH):
    """Nemotron-H whose networks may be mixtures."""

    arch = "nemotron_h_moe"
