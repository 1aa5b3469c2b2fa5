"""The state that a chain keeps for one sequence, in plain Python; ``csrc/state.cc`` is the same."""

from __future__ import annotations

import numpy as np

from unladen.sample.base import Ids
from unladen.sample.rng import Xoshiro256


class PythonState:
    """The generator and the accepted tokens of a sequence, as the native state has them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.memory: dict[str, object] = {}
        self._rng = Xoshiro256(seed)
        self._history: list[int] = []

    def accept(self, token: int) -> None:
        """Append ``token`` to the history."""
        self._history.append(token)

    def accept_all(self, tokens: Ids) -> None:
        """Append int32 [n] ``tokens`` to the history."""
        self._history.extend(tokens.tolist())

    def recent(self, n: int) -> Ids:
        """int32 [<= n]: the last ``n`` accepted tokens, oldest first; -1 means all of them."""
        start = 0 if n < 0 else max(0, len(self._history) - n)
        return np.array(self._history[start:], dtype=np.int32)

    def random(self) -> int:
        """The next 64 random bits as an unsigned number."""
        return self._rng.next()
