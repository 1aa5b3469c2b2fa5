"""Writes tests/sample/llama_cpp.json: the results of llama.cpp's sampler steps on random logits.

Run it with llama-cpp-python 0.3.36 and NumPy in one environment:

    python tools/gen_sampler_answers.py

Each answer belongs to one step or chain, on logits from a fixed seed (``logits`` in
tests/sample/test_llama_cpp.py makes the same): the ids that are left, and their logits.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import llama_cpp as engine
import numpy as np

OUT = Path(__file__).resolve().parents[1] / "tests/sample/llama_cpp.json"
N_VOCAB = 400
"""Logits in each row."""
CHAINS: list[list[list[Any]]] = [
    [["top_k", 40]], [["top_p", 0.9, 1]], [["min_p", 0.05, 1]], [["typical_p", 0.7, 1]],
    [["typical_p", 0.3, 5]], [["top_n_sigma", 1.0]], [["top_n_sigma", 2.5]],
    [["xtc", 1.0, 0.05, 1]], [["temp", 0.7]], [["temp_ext", 0.8, 0.5, 1.0]],
    [["temp_ext", 1.5, 1.0, 2.0]], [["penalties", 64, 1.2, 0.3, 0.1]],
    [["penalties", 8, 0.9, -0.2, 0.5]],
    [["penalties", 64, 1.1, 0.0, 0.0], ["top_n_sigma", 2.0], ["top_k", 40], ["typical_p", 0.95, 1],
     ["top_p", 0.95, 1], ["min_p", 0.05, 1], ["xtc", 1.0, 0.1, 1], ["temp_ext", 0.8, 0.2, 1.0]]]


def make(step: list[Any]) -> Any:
    name, *args = step
    if name == "penalties":
        return engine.llama_sampler_init_penalties(N_VOCAB, *args)
    if name == "xtc":
        return engine.llama_sampler_init_xtc(*args, 0)
    return getattr(engine, f"llama_sampler_init_{name.removesuffix('_p')}"
                   if name == "typical_p" else f"llama_sampler_init_{name}")(*args)


def answer(steps: list[list[Any]], seed: int) -> dict[str, Any]:
    rng = np.random.Generator(np.random.PCG64(seed))
    logits = (rng.standard_normal(N_VOCAB) * 2.5).astype(np.float32)
    history = rng.integers(0, N_VOCAB, 50).tolist() * 2
    data = (engine.llama_token_data * N_VOCAB)()
    for i, x in enumerate(logits.tolist()):
        data[i].id, data[i].logit, data[i].p = i, x, 0
    array = engine.llama_token_data_array(data, N_VOCAB, -1, False)
    for step in steps:
        sampler = make(step)
        for token in history:
            engine.llama_sampler_accept(sampler, token)
        engine.llama_sampler_apply(sampler, ctypes.byref(array))
        engine.llama_sampler_free(sampler)
    left = {array.data[i].id: array.data[i].logit for i in range(array.size)
            if array.data[i].logit > -np.inf}
    ids = sorted(left)
    return {"seed": seed, "steps": steps, "ids": ids, "logits": [left[i] for i in ids]}


if __name__ == "__main__":
    OUT.write_text(json.dumps([answer(steps, 100 + i) for i, steps in enumerate(CHAINS)]) + "\n")
