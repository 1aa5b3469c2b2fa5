"""Writes tests/parity/gelu_answers.npz: llama.cpp's answers when it computes GELU exactly.

By default llama.cpp looks GELU up in a table of float16 numbers, which alone moves logits by a
normalized squared error of about 1e-7. The answers beside the recipes contain that error; these
don't. To make them, build the source distribution of llama-cpp-python 0.3.36 without the line
``#define GGML_GELU_FP16`` in ``ggml/src/ggml-cpu/vec.h``. Then run, with ``unladen``'s test
dependencies and that package in one environment:

    python tools/gen_gelu_answers.py ../shared/archs

Recipes whose answers don't change by a bit are left out.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import llama_cpp as engine
import numpy as np

OUT = Path(__file__).resolve().parents[1] / "tests/parity/gelu_answers.npz"


def answer(path: Path, tokens: list[int], which: str, width: int) -> Any:
    """float32 [len(tokens), width]: ``logits``, or ``embeddings`` of an encoder."""
    model_params = engine.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = engine.llama_model_load_from_file(str(path).encode(), model_params)
    params = engine.llama_context_default_params()
    params.n_ctx, params.type_k, params.type_v, params.flash_attn_type = 256, 0, 0, 0
    params.embeddings, params.pooling_type = which == "embeddings", 0
    context = engine.llama_init_from_model(model, params)
    batch = engine.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if engine.llama_decode(context, batch):
        raise SystemExit(f"{path.name}: the engine refuses the tokens")
    read = (engine.llama_get_logits_ith if which == "logits"
            else engine.llama_get_embeddings_ith)
    rows = [np.ctypeslib.as_array(read(context, i), shape=(width,)) for i in range(len(tokens))]
    found = np.stack(rows)  # a copy, because the engine's memory is freed next
    engine.llama_free(context)
    engine.llama_model_free(model)
    return found


def main(recipes: Path) -> None:
    spec = importlib.util.spec_from_file_location("fixture", recipes / "fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    engine.llama_backend_init()
    changed = {}
    with tempfile.TemporaryDirectory() as folder:
        for recipe in sorted(recipes.glob("*.json")):
            path = Path(folder) / f"{recipe.stem}.gguf"
            fixture.build(recipe, path)
            with np.load(recipe.with_suffix(".npz")) as data:
                which = "logits" if "logits" in data else "embeddings"
                tokens, expected = data["tokens"].tolist(), data[which]
            found = answer(path, tokens, which, expected.shape[1])
            if not np.array_equal(found, expected):
                changed[recipe.stem] = found
            print(recipe.stem, json.loads(recipe.read_text())["arch"], recipe.stem in changed)
    np.savez_compressed(OUT, **changed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
