"""Constrains a text: no token may contain the letter "e".

    python examples/own_constraint.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``. unladen has no
grammars yet; a constraint is the hook for one. The ``mask`` of a grammar would follow
``self.tokens``, which the base class keeps.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from unladen import Model, SamplerChain
from unladen.sample import Constraint, mask_of


class Only(Constraint):
    """Allows the tokens of one mask, whatever came before."""

    def __init__(self, allowed: npt.NDArray[np.uint32]) -> None:
        self._allowed = allowed

    def mask(self, out: npt.NDArray[np.uint32]) -> None:
        """Set the bits of the tokens that may come next."""
        out[:] = self._allowed


def main(path: str = "tiny") -> None:
    with Model(path) as model:
        allowed = mask_of(np.array(["e" not in model.detokenize([token]).lower()
                                    for token in range(model.tokenizer.n_vocab)]))
        chain = SamplerChain().constraint(lambda: Only(allowed)).temp(0.8).dist(seed=1)
        print(model.generate("A cat sat on a mat.", max_tokens=40, sampler=chain).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
