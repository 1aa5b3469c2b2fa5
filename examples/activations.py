"""Shows how much each layer changes the residual stream, and steers a text with a control vector.

    python examples/activations.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from unladen import Model

HAPPY = "The sun was warm and everyone was happy."
SAD = "It was dark and cold and everyone was sad."


def means(model: Model, text: str, names: list[str]) -> dict[str, npt.NDArray[np.float32]]:
    """The mean over the tokens of ``text`` of each node, float32 [n_embd]."""
    with model.tap(names) as taps:
        model.logits(model.tokenize(text))
    return {name: taps[name].mean(axis=0) for name in names}


def main(path: str = "tiny") -> None:
    with Model(path) as model:
        names = [name for name in model.nodes if name.endswith(".ffn_residual")]
        happy, sad = means(model, HAPPY, names), means(model, SAD, names)
        for name in names:
            print(f"{name}: length {np.linalg.norm(happy[name]):.1f}, "
                  f"difference {np.linalg.norm(happy[name] - sad[name]):.1f}")
        middle = names[len(names) // 2 - 1]
        for strength in (-1.5, 0.0, 1.5):
            with model.tap(add={middle: strength * (happy[middle] - sad[middle])}):
                done = model.generate("The day", max_tokens=20, temperature=0.0)
            print(f"{strength:+.1f}: {done.text!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
