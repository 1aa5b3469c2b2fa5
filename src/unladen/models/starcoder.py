"""StarCoder (Li et al. 2023)."""

from unladen.models.gpt2 import Gpt2


class StarCoder(Gpt2):
    """As GPT-2, with one or few heads for keys and values."""

    arch = "starcoder"
