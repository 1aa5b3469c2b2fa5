"""Computes log-probabilities and the perplexity of a text from a model's logits.

    python examples/perplexity.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``.
"""

from __future__ import annotations

import sys

import numpy as np

from unladen import Model

TEXT = "Once upon a time, there was a little cloud who lived above the mountains."


def main(path: str = "tiny") -> None:
    with Model(path) as model:
        ids = model.tokenize(TEXT)
        logits = model.logits(ids).astype(np.float64)  # [n_tokens, n_vocab]: after each token
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        # The row after token i holds the log-probability of token i + 1.
        chosen = log_probs[np.arange(len(ids) - 1), ids[1:]]
        for token, log_prob in zip(ids[1:], chosen, strict=True):
            print(f"{log_prob:8.3f}  {model.detokenize([token])!r}")
        print(f"perplexity {np.exp(-chosen.mean()):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
