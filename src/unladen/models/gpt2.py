"""GPT-2 (Radford et al. 2019)."""

from unladen.models._parts.learned import LearnedPositions


class Gpt2(LearnedPositions):
    """Learned positions, layer norms, one matrix for queries, keys and values, plain GELU."""

    arch = "gpt2"
    norm_op = "layer_norm"
    act = "gelu"
    gated = False
