"""Adds a sampler step of one's own: words already used become less likely, the more the nearer.

    python examples/own_step.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``. A step in a file
of a plug-in folder's ``sample/`` (``UNLADEN_PLUGIN_PATH``) is also found by name:
``SamplerChain().add("fading_penalty", 2.0)``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from unladen import Model, SamplerChain
from unladen.sample import Step
from unladen.sample.base import Candidates, State


@dataclass(frozen=True)
class FadingPenalty(Step):
    """Takes ``strength`` from the logit of the last token, half of it from the one before, a third
    from the one before that, and so on over 64 tokens."""

    name = "fading_penalty"
    strength: float = 2.0

    def apply(self, candidates: Candidates, state: State) -> None:
        for age, token in enumerate(reversed(state.recent(64)), 1):
            at = np.searchsorted(candidates.ids, token)  # ids are in order
            if at < len(candidates.ids) and candidates.ids[at] == token:
                candidates.logits[at] -= np.float32(self.strength / age)


def main(path: str = "tiny") -> None:
    with Model(path) as model:
        plain = SamplerChain().temp(0.8).dist(seed=1)
        fading = SamplerChain().step(FadingPenalty(12.0)).temp(0.8).dist(seed=1)
        for name, chain in (("plain", plain), ("fading", fading)):
            done = model.generate("Once upon a time", max_tokens=40, sampler=chain)
            print(f"{name}: {done.text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
