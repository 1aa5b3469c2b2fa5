"""OLMoE (Muennighoff et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Olmoe(Decoder):
    """Norms over all heads of queries and of keys; experts' weights aren't normalized after the
    softmax."""

    arch = "olmoe"
    rope_style = "neox"
    expert_normalize = False
