"""StarCoder (Li et al. 2023)."""

from unladen.models.gpt2 import Gpt2


class StarCoder(Gpt2):
    """Built like GPT-2, with one head or few heads for keys and values."""

    arch = "starcoder"
