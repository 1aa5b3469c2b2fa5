"""constraint: only what a grammar, or anything else that looks at the tokens, allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import reject
from unladen.sample.base import BadLogits, Candidates, Ids, State, Step, whole


class Allows(Protocol):
    """Says what may come next."""

    def allowed(self, tokens: Ids) -> npt.NDArray[np.bool_]:
        """bool [n_vocab]: which tokens may follow int32 [n] ``tokens``, all that was accepted
        after the prompt; asked once a token."""


@dataclass(frozen=True)
class Constraint(Step):
    """Drop the candidates that ``allows`` doesn't allow: the hook for grammars.

    ``n_prompt`` tokens that were accepted first are not shown to it. Raises :class:`BadLogits`
    where nothing allowed is left.
    """

    name: ClassVar[str] = "constraint"
    allows: Allows
    n_prompt: int = 0

    def __post_init__(self) -> None:
        if not callable(getattr(self.allows, "allowed", None)):
            reject("allows", "an object with a method allowed(tokens)", self.allows)
        whole("n_prompt", self.n_prompt, 0)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Ask, and keep."""
        answer = self.allows.allowed(state.recent(-1)[self.n_prompt:])
        try:
            allowed = np.asarray(answer)
        except ValueError as error:  # rows of different lengths
            raise InvalidArgument(f"allowed() gave no array: {error}",
                                  hint="bool [n_vocab]") from error
        if allowed.dtype != bool or allowed.ndim != 1 or len(allowed) <= candidates.ids[-1]:
            raise InvalidArgument(f"allowed() gave {allowed.dtype} {list(allowed.shape)}",
                                  hint="bool [n_vocab]")
        candidates.keep(allowed[candidates.ids])
        if not len(candidates.ids):
            raise BadLogits("the constraint allows none of the candidates")
