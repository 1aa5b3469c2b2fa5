"""BERT and what is built like it (Devlin et al. 2018)."""

from unladen.models._parts.encoder import Encoder
from unladen.models._parts.learned import LearnedPositions


class Bert(Encoder, LearnedPositions):
    """Learned positions; a feed-forward of plain GELU."""

    arch = "bert"
    act = "gelu"
    gated = False
