"""Llama and what is built like it, dense (Touvron et al. 2023) or with experts (Mixtral, 2024)."""

from unladen.models._parts.decoder import Decoder


class Llama(Decoder):
    """Rotary embedding of neighbouring pairs; everything else is the plain decoder."""

    arch = "llama"
    n_layers_70b = 80
    grouped_70b = True
