"""OLMoE (Muennighoff et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Olmoe(Decoder):
    """Norms over all heads of queries and of keys; weights as the softmax gives them."""

    arch = "olmoe"
    rope_style = "neox"
    expert_normalize = False
