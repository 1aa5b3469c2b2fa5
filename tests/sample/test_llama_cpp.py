"""Steps and chains against llama.cpp's on the same logits.

Its answers are in llama_cpp.json, written by tools/gen_sampler_answers.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.sample import Candidates, SamplerChain
from unladen.sample.state import PythonState

N_VOCAB = 400
ANSWERS = json.loads(Path(__file__).with_name("llama_cpp.json").read_text())


def logits(seed: int) -> tuple[np.ndarray, list[int]]:
    """The logits, and the tokens accepted before."""
    rng = np.random.Generator(np.random.PCG64(seed))
    values = (rng.standard_normal(N_VOCAB) * 2.5).astype(np.float32)
    return values, rng.integers(0, N_VOCAB, 50).tolist() * 2


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: "+".join(s[0] for s in a["steps"]))
def test_what_is_left(answer: dict[str, Any]) -> None:
    values, history = logits(answer["seed"])
    chain = SamplerChain()
    for name, *args in answer["steps"]:
        chain = getattr(chain, name)(*args)
    state = PythonState(0)
    state.accept_all(np.array(history, np.int32))
    candidates = Candidates.of(values)
    for step in chain.steps:
        step.apply(candidates, state)
    assert candidates.ids.tolist() == answer["ids"]
    # Theirs are float32 throughout: entropies of some hundred terms, powers, logarithms.
    np.testing.assert_allclose(candidates.logits, answer["logits"], rtol=1e-4, atol=1e-5)
