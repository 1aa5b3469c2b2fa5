"""Constrains a text: no token may contain the letter "e".

    python examples/own_constraint.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``. unladen has no
grammars yet; a constraint is the hook for one.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from unladen import Model, SamplerChain


class WithoutLetter:
    """Allows the tokens whose text doesn't contain ``letter``."""

    def __init__(self, model: Model, letter: str) -> None:
        n_vocab = model.logits(model.tokenize("A")).shape[1]
        self._allowed = np.array([letter not in model.detokenize([token]).lower()
                                  for token in range(n_vocab)])

    def allowed(self, tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """bool [n_vocab]: what may follow ``tokens``; here it doesn't depend on them."""
        return self._allowed


def main(path: str = "tiny") -> None:
    with Model(path) as model:
        chain = SamplerChain().constraint(WithoutLetter(model, "e")).temp(0.8).dist(seed=1)
        print(model.generate("A cat sat on a mat.", max_tokens=40, sampler=chain).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
