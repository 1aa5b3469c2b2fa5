"""Writes tests/quantizing/llama_cpp.json: llama.cpp's results for the weights of the tests.

Run it with llama-cpp-python 0.3.36 and NumPy in one environment, and unladen on the path:

    PYTHONPATH=src:tests python tools/gen_quantize_answers.py

The file has, for each block format, the hash of the blocks that llama.cpp makes from rows of a
fixed seed, without and with importance; and for each model in tests/quantizing/models.py and each
mix the format of every tensor.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import tempfile
from itertools import groupby
from pathlib import Path

import llama_cpp as engine
import numpy as np

from quantizing.models import MODELS, Paper, importance, rows, shapes, write
from unladen import quants
from unladen.gguf import open_gguf
from unladen.quantizing.mixes import MIXES

OUT = Path(__file__).resolve().parents[1] / "tests/quantizing/llama_cpp.json"
SEED, N_ROWS, N_COLS = 20, 48, 1024
FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
           "IQ4_XS", "MXFP4")
WEIGHTED = ("Q2_K_S", "Q4_0", "Q5_0", "IQ4_NL", "IQ4_XS")
"""The mixes that an importance matrix changes."""


def blocks_of(name: str) -> list[str]:
    folder = Path(engine.__file__).parent / "lib"
    chunk = ctypes.CDLL(str(folder / "libggml-base.so")).ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3,
                      ctypes.c_void_p]
    rng = np.random.Generator(np.random.PCG64(SEED))
    x, weights = rows(rng, N_ROWS, N_COLS), importance(rng, N_COLS)
    quant = quants.get(name)
    hashes = []
    for given in (None, weights.ctypes.data):
        out = np.zeros((N_ROWS, quant.row_bytes(N_COLS)), np.uint8)
        chunk(quant.type_id, x.ctypes.data, out.ctypes.data, 0, N_ROWS, N_COLS, given)
        hashes.append(hashlib.sha256(out.tobytes()).hexdigest())
    return hashes


class Importance(ctypes.Structure):
    """``llama_model_imatrix_data``."""

    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def formats_of(model: Paper, file_type: int, folder: Path, *, imatrix: bool) -> str:
    """Formats in the file's order: ``"Q6_K F32 Q4_K*3"``; with an importance matrix of ones."""
    source, target = write(folder / "in.gguf", model), folder / "out.gguf"
    params = engine.llama_model_quantize_default_params()
    params.ftype, params.nthread = file_type, 1
    if imatrix:
        ones = np.ones(model.n_cols * max(model.n_experts, 1), np.float32)
        entries = [Importance(name.encode(), ones.ctypes.data,
                              model.n_cols * (shape[0] if len(shape) > 2 else 1))
                   for name, shape in shapes(model)]
        array = (Importance * (len(entries) + 1))(*entries, Importance(None, None, 0))
        params.imatrix = ctypes.cast(array, type(params.imatrix))
    if engine.llama_model_quantize(str(source).encode(), str(target).encode(), params):
        return ""
    with open_gguf(target) as file:
        runs = [(quant, len(list(run))) for quant, run in
                groupby(t.quant for t in file.tensors.values())]
    return " ".join(quant if n == 1 else f"{quant}*{n}" for quant, n in runs)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mixes, weighted = ({
            name: {mix: formats_of(model, MIXES[mix].file_type, Path(folder), imatrix=imatrix)
                   for mix in names} for name, model in MODELS.items()}
            for names, imatrix in ((MIXES, False), (WEIGHTED, True)))
    answers = {"seed": SEED, "rows": [N_ROWS, N_COLS],
               "blocks": {name: blocks_of(name) for name in FORMATS}, "mixes": mixes,
               "weighted": weighted}
    OUT.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
