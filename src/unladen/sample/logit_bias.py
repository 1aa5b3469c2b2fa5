"""logit_bias: add a constant to chosen tokens' logits, or ban them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import items, reject
from unladen.sample.base import Candidates, State, Step, number, whole


@dataclass(frozen=True)
class LogitBias(Step):
    """Add ``bias[i][1]`` to the logit of token ``bias[i][0]``; -inf bans the token.

    This is the OpenAI API's ``logit_bias``. ``bias`` has pairs with distinct ids; :meth:`of` takes
    a mapping.
    """

    name: ClassVar[str] = "logit_bias"
    opcode: ClassVar[str | None] = "logit_bias"
    bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", tuple(
            items("logit_bias", self.bias, "pairs of a token id and a number")))
        for pair in self.bias:
            if not isinstance(pair, tuple) or len(pair) != 2:
                reject("logit_bias", "pairs of a token id and a number", self.bias)
            token, amount = pair
            whole("a token id of logit_bias", token, 0)
            if not (isinstance(amount, float) and amount == -math.inf):
                number(f"logit_bias[{token}]", amount, -1e6, 1e6)
        if len({token for token, _ in self.bias}) < len(self.bias):
            raise InvalidArgument("logit_bias names a token twice")

    @classmethod
    def of(cls, bias: Mapping[int, float]) -> LogitBias:
        """The step that adds ``bias[token]`` to each token's logit."""
        if not isinstance(bias, Mapping):
            reject("logit_bias", "a mapping from token ids to numbers", bias,
                   "for example {13: -2.5}")
        return cls(tuple(bias.items()))

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return None if self.bias else 0

    def apply(self, candidates: Candidates, state: State) -> None:
        """Add to the logits of those tokens that are candidates."""
        for token, amount in self.bias:
            candidates.logits[candidates.ids == token] += np.float32(amount)
        candidates.keep(candidates.logits > -np.inf)

    def packed(self) -> tuple[float, ...]:
        """(id, bias) pairs one after the other; a double holds any int32 id."""
        return tuple(float(x) for pair in self.bias for x in pair)
