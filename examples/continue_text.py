"""Continues a text.

    python examples/continue_text.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``.
"""

from __future__ import annotations

import sys

from unladen import Model


def main(path: str = "tiny") -> None:
    with Model(path) as model:
        done = model.generate("Once upon a time", max_tokens=60, temperature=0.8, seed=1)
        print(done.text)
        print(f"{done.usage.n_completion} tokens, ended by {done.stop_reason}, "
              f"{done.timings.completion_per_second:.0f} tokens a second", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
