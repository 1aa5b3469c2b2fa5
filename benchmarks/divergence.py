"""Measures how far the logits of unladen and llama.cpp are from those of float32 arithmetic.

    python benchmarks/divergence.py --peer /path/to/venv/bin/python model-q4_0.gguf ...

``--peer`` is a Python that has llama-cpp-python. The texts are drawn from the model itself at
temperature 1. The truth is computed from the file's weights in float32 or better, with float32
activations and cache: by the reference backend, or for files above ``--large`` megabytes by the
CPU's float32 kernels. Both programs run with their defaults. The output is the mean
Kullback-Leibler divergence over all tokens from the truth's probabilities to each program's, in
nats, and the ratio of the two with its standard error over texts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--peer", help="a Python with llama-cpp-python")
    parser.add_argument("--tokens", type=int, default=120, help="of a text")
    parser.add_argument("--texts", type=int, default=6)
    parser.add_argument("--large", type=float, default=50)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        _peer(*args.worker)
        return
    print("| file | unladen | llama.cpp | ratio |\n| --- | --- | --- | --- |")
    for path in args.models:
        texts, ours = _ours(path, args.tokens, args.texts)
        truth = _truth(path, texts, is_large=path.stat().st_size > args.large * 1e6)
        mine = _divergences(truth, ours)
        cells = f"{mine.mean():.3g} | |"
        if args.peer:
            theirs = _divergences(truth, _ask(args.peer, path, texts))
            ratio = mine.sum() / theirs.sum()
            error = np.sqrt(((mine - ratio * theirs)**2).sum()) / theirs.sum()
            cells = f"{mine.mean():.3g} | {theirs.mean():.3g} | {ratio:.3f} ± {error:.3f}"
        print(f"| {path.stem} | {cells} |", flush=True)


def _ours(path: Path, n_tokens: int, n_texts: int) -> tuple[list[list[int]], list[Logits]]:
    from unladen import Model
    with Model(path, devices=["cpu"], context_size=n_tokens + 1) as model:
        start = [model.tokenizer.bos_id or 0]
        texts = [start + model.generate(start, max_tokens=n_tokens - 1, temperature=1.0, seed=seed,
                                        top_k=0, top_p=1.0, min_p=0.0, ignore_eos=True).tokens
                 for seed in range(n_texts)]
        return texts, [model.logits(text) for text in texts]


def _truth(path: Path, texts: list[list[int]], *, is_large: bool) -> list[Logits]:
    from unladen import Model
    with Model(path, devices=["cpu" if is_large else "reference"], precise=True, kv_type="f32",
               context_size=len(texts[0]) + 1) as model:
        return [model.logits(text) for text in texts]


def _divergences(truth: list[Logits], other: list[Logits]) -> npt.NDArray[np.float64]:
    """The divergence of each text; all texts have the same length."""
    found = []
    for p, q in zip(truth, other, strict=True):
        log_p, log_q = (_log_softmax(logits.astype(np.float64)) for logits in (p, q))
        found.append((np.exp(log_p) * (log_p - log_q)).sum() / len(p))
    return np.array(found)


def _log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _ask(python: str, path: Path, texts: list[list[int]]) -> list[Logits]:
    with tempfile.TemporaryDirectory() as folder:
        wanted, answer = Path(folder, "texts.json"), Path(folder, "logits.npz")
        wanted.write_text(json.dumps(texts))
        subprocess.run([python, __file__, "--worker", str(path), str(wanted), str(answer)],
                       check=True)
        with np.load(answer) as found:
            return [found[str(i)] for i in range(len(texts))]


def _peer(path: str, wanted: str, answer: str) -> None:
    from llama_cpp import Llama
    texts = json.loads(Path(wanted).read_text())
    model = Llama(path, n_ctx=len(texts[0]) + 1, logits_all=True, verbose=False)
    found = {}
    for i, text in enumerate(texts):
        model.reset()
        model.eval(text)
        found[str(i)] = np.array(model.scores[:len(text)])
    np.savez(answer, **found)


if __name__ == "__main__":
    main()
