"""Shows a text while it is written, and stops at the end of the second sentence.

    python examples/stream.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``.
"""

from __future__ import annotations

import sys

from unladen import Model


def main(path: str = "tiny") -> None:
    with Model(path) as model, model.stream("The little cloud", max_tokens=200, seed=1) as stream:
        n_sentences = 0
        for piece in stream:
            print(piece, end="", flush=True)
            n_sentences += piece.count(".")
            if n_sentences >= 2:
                break  # leaving the ``with`` cancels the rest
        print()
        print(f"{stream.result.usage.n_completion} tokens", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
