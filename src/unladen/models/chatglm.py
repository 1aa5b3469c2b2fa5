"""ChatGLM 3 and GLM-4-9B (Zeng et al. 2024)."""

from unladen.models._parts.decoder import Decoder


class ChatGlm(Decoder):
    """The gate and ``ffn_up`` share one matrix."""

    arch = "chatglm"
