"""Ranks texts by how near they are to a query.

    python examples/search.py MODEL [QUERY]

MODEL is an encoder: a GGUF file, or ``org/repo:QUANT`` on Hugging Face. The model ``tiny`` is none.
"""

from __future__ import annotations

import sys

import numpy as np

from unladen import Model

TEXTS = ("A cat sleeps on the sofa.", "Interest rates rose again.", "The kitten naps.",
         "A new bridge was opened in the city.")


def main(path: str, query: str = "sleeping cats") -> None:
    with Model(path) as model:
        # Vectors have length 1, so products are the cosines of angles between them.
        rows = model.embed(list(TEXTS))  # float32 [n_texts, n_embd]
        scores = rows @ model.embed(query)
    for i in np.argsort(scores)[::-1]:
        print(f"{scores[i]:.3f}  {TEXTS[i]}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python examples/search.py MODEL [QUERY], where MODEL is an encoder")
    main(*sys.argv[1:])
