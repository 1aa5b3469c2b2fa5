from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

class State:
    memory: dict[str, object]
    def __init__(self, seed: int) -> None: ...
    def accept(self, token: int) -> None: ...
    def accept_all(self, tokens: npt.NDArray[np.int32]) -> None: ...
    def recent(self, n: int) -> npt.NDArray[np.int32]: ...
    def random(self) -> int: ...

class Chain:
    def __init__(self, steps: Sequence[tuple[str, Sequence[float]]]) -> None: ...
    def pick(
        self,
        logits: npt.NDArray[np.float32],
        state: State,
        accept: bool,
        masks: Sequence[npt.NDArray[np.uint32]] | None = None,
    ) -> int: ...
    def run(
        self,
        logits: npt.NDArray[np.float32],
        ids: npt.NDArray[np.int32] | None,
        state: State,
        masks: Sequence[npt.NDArray[np.uint32]] | None = None,
    ) -> tuple[int, npt.NDArray[np.int32], npt.NDArray[np.float32]]: ...

def sample_rows(
    logits: npt.NDArray[np.float32], chains: Sequence[Chain], states: Sequence[State]
) -> tuple[list[int], str]: ...
def logprobs(
    logits: npt.NDArray[np.float32], token: int, n_top: int
) -> tuple[float, list[tuple[int, float]]]: ...
def opcodes() -> list[str]: ...
