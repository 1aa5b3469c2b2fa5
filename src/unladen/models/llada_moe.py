"""LLaDA with experts (Zhu et al. 2025)."""

from unladen.models._parts.diffusion import DiffusionDecoder


class LladaMoe(DiffusionDecoder):
    """Queries and keys are normalized per head; the chosen experts' weights stay as they are."""

    arch = "llada-moe"
    rope_style = "neox"
    unbiased = frozenset({"attn_output"})
    expert_normalize = False
