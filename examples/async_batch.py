"""Runs several requests at once: coroutines that wait at the same time share batches.

    python examples/async_batch.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``.
"""

from __future__ import annotations

import asyncio
import sys

from unladen import Model

PROMPTS = ("Once upon a time", "The little cloud", "One day", "In the forest")


async def main(path: str = "tiny") -> None:
    with Model(path) as model:
        requests = [model.agenerate(prompt, max_tokens=20, seed=1) for prompt in PROMPTS]
        for prompt, done in zip(PROMPTS, await asyncio.gather(*requests), strict=True):
            print(f"{prompt}|{done.text}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
