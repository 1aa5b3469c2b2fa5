"""OLMo (Groeneveld et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class Olmo(Decoder):
    """Layer norms without weights; queries, keys and values may be clamped."""

    arch = "olmo"
    n_layers_70b = 80
    norm_op = "layer_norm"
    norm_weights = False
