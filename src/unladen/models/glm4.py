"""GLM-4 0414 (Zeng et al. 2025), text part."""

from __future__ import annotations

from unladen.gguf import GGUFFile, HParams
from unladen.models._parts.decoder import Decoder


class Glm4(Decoder):
    """Norms around attention and feed-forward; the gate and ``ffn_up`` share one matrix.
    The models that understand images use NeoX rotary embedding."""

    arch = "glm4"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        if hparams.is_array("rope.dimension_sections"):
            self.rope_style = "neox" if any(hparams.numbers("rope.dimension_sections")) else "norm"
