"""Trains the tiny story model and writes it as ``src/unladen/data/tiny.gguf``.

From the project's root, with PyTorch 2.13.0 (CPU) and a C++ compiler, about half an hour on one
core::

    pip install torch==2.13.0 numpy
    PYTHONPATH=src python tools/tiny/train.py --work build/tiny

``--work`` receives the checkpoint and ``log.txt`` with losses and samples; ``--export`` only
writes the file again from the checkpoint. The seeds are fixed; another processor or release of
PyTorch may round differently and give another, equally good model.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import export
import numpy as np
import torch
from model import Shape, TinyLlama
from stories import compose
from torch.nn import functional as F
from vocab import BOS, EOS, Encoder, learn

OUT = Path(__file__).parents[2] / "src/unladen/data/tiny.gguf"
SEED, HELD_OUT_SEED = 1, 2
N_BATCH = 1536
"""Tokens per step."""
N_SHORT, N_LONG = 384, 512
"""Row lengths: most of the training, and the last fifth of it."""
PEAK_RATE = 2e-3
PROMPTS = ("Once upon a time", "One day, a little dragon", "The king was sad because", "Lily")


def tokens(encoder: Encoder, seed: int, n: int) -> np.ndarray:
    """``n`` tokens of stories, each between BOS and EOS: uint16 [n].

    One in twelve lacks its beginning, so that the model can take up a text anywhere.
    """
    rng = random.Random(seed)
    stories = (begin_late(s, rng) if rng.random() < 1 / 12 else s for s in compose(seed, n))
    endless = itertools.chain.from_iterable((BOS, *encoder.encode(s), EOS) for s in stories)
    return np.fromiter(itertools.islice(endless, n), dtype=np.uint16, count=n)


def begin_late(story: str, rng: random.Random) -> str:
    """``story`` from one of its sentences on."""
    starts = [m.end() for m in re.finditer(r"[.!?] (?=[A-Z])|\n\n", story)]
    return story[rng.choice(starts):]


def rows(stream: np.ndarray, n_steps: int) -> Iterator[torch.Tensor]:
    """One int64 [n_rows, length + 1] a step, consecutive in the stream."""
    for step in range(n_steps):
        length = N_SHORT if step < n_steps * 4 // 5 else N_LONG
        part = stream[step * N_BATCH:(step + 1) * N_BATCH + 1].astype(np.int64)
        starts = range(0, N_BATCH, length)
        yield torch.from_numpy(np.stack([part[i:i + length + 1] for i in starts]))


def rate(step: int, n_steps: int) -> float:
    """Learning rate: a short climb, then a cosine down to a fiftieth."""
    climb = min(1.0, (step + 1) / 200)
    return PEAK_RATE * climb * (0.51 + 0.49 * math.cos(math.pi * step / n_steps))


def loss_of(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(batch[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())


def optimizer(model: TinyLlama) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.ndim == 2]
    norms = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98), fused=True)


def report(work: Path, model: TinyLlama, pieces: list[str], line: str) -> None:
    """Save a checkpoint; write ``line`` and samples to the log."""
    torch.save({"pieces": pieces, "weights": model.state_dict()}, work / "checkpoint.pt")
    encoder = Encoder(pieces)
    with (work / "log.txt").open("a", encoding="utf-8") as log:
        print(line, file=log)
        for prompt, temperature in itertools.product(PROMPTS, (0.0, 0.8)):
            ids = model.generate([BOS, *encoder.encode(prompt)], 400, EOS, temperature)
            print(f"\n[{temperature}] {export.text(pieces, ids)}", file=log)


def train(work: Path, n_steps: int) -> None:
    """Learn the vocabulary, then the weights; leaves ``checkpoint.pt`` in ``work``."""
    torch.manual_seed(SEED)
    shape = Shape()
    pieces = learn(compose(SEED, 6000), shape.n_vocab)
    encoder = Encoder(pieces)
    held_out = list(rows(tokens(encoder, HELD_OUT_SEED, 20 * N_BATCH + 1), 20))
    stream = tokens(encoder, SEED, n_steps * N_BATCH + 1)
    model = TinyLlama(shape)
    fast = torch.compile(model)
    steps = optimizer(model)
    started = time.monotonic()
    for step, batch in enumerate(rows(stream, n_steps)):
        for group in steps.param_groups:
            group["lr"] = rate(step, n_steps)
        loss = loss_of(fast, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        steps.zero_grad()
        if step % 100 == 0:
            print(f"{step} loss {loss.item():.4f} {time.monotonic() - started:.0f} s", flush=True)
        if (step + 1) % 500 == 0 or step + 1 == n_steps:
            with torch.no_grad():
                held = sum(loss_of(model, rest).item() for rest in held_out) / len(held_out)
            report(work, model, pieces, f"\n== {step + 1} steps, held-out loss {held:.4f}")


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6500)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--export", action="store_true", help="only write the file again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    if not options.export:
        train(options.work, options.steps)
    saved = torch.load(options.work / "checkpoint.pt")
    weights = {name: w.float().numpy() for name, w in saved["weights"].items()}
    export.write(options.out, Shape(), saved["pieces"], weights)


if __name__ == "__main__":
    main()
