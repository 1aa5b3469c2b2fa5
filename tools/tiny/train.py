"""Trains the tiny story model and writes it as ``src/unladen/data/tiny.gguf``.

From the project's root, with PyTorch 2.13.0 (CPU) and a C++ compiler, about twenty minutes on one
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
from collections.abc import Callable, Iterator
from pathlib import Path

import export
import torch
from model import Shape, TinyLlama
from stories import compose, introductions
from torch.nn import functional as F
from vocab import BOS, EOS, Encoder, learn

OUT = Path(__file__).parents[2] / "src/unladen/data/tiny.gguf"
SEED, HELD_OUT_SEED = 1, 2
N_BATCH = 1536
"""Tokens per step."""
STAGES = ((300, introductions, 48), (2700, compose, 384), (500, compose, 512))
"""The stages of training: number of steps, source of texts, length of a row.

The first stage trains on short introductions: within a hundred steps the model learns from them to
repeat a name from the text before, which whole stories would teach only late.
"""
PEAK_RATE = 4e-3
"""The learning rate after the warm-up."""
PROMPTS = ("Once upon a time", "One day, a little dragon", "The king was sad because", "Lily")

Source = Callable[[int, int], Iterator[str]]


def begin_late(story: str, rng: random.Random) -> str:
    """``story`` from one of its sentences on."""
    starts = [m.end() for m in re.finditer(r"[.!?] (?=[A-Z])|\n\n", story)]
    return story[rng.choice(starts):]


def batches(encoder: Encoder, source: Source, seed: int, n_steps: int, length: int
            ) -> Iterator[torch.Tensor]:
    """``n_steps`` times int64 [n_rows, length + 1]; a row starts where a text does.

    One text in twelve lacks its beginning, so that the model can take up a text anywhere.
    """
    rng = random.Random(seed)
    texts = source(seed, n_steps * N_BATCH)
    for _ in range(n_steps):
        rows = []
        for _ in range(N_BATCH // length):
            row: list[int] = []
            while len(row) <= length:
                text = next(texts)
                if rng.random() < 1 / 12:
                    text = begin_late(text, rng)
                row += (BOS, *encoder.encode(text), EOS)
            rows.append(row[:length + 1])
        yield torch.tensor(rows)


def rate(step: int, n_steps: int) -> float:
    """The learning rate: a short warm-up, then a cosine down to a fiftieth."""
    climb = min(1.0, (step + 1) / 50)
    return PEAK_RATE * climb * (0.51 + 0.49 * math.cos(math.pi * step / n_steps))


def loss_of(model: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(batch[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())


def optimizers(model: TinyLlama) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the layers' matrices, AdamW for the embedding and the norms."""
    matrices = [p for p in model.blk.parameters() if p.ndim == 2]
    others = [model.token_embd.weight, *(p for p in model.parameters() if p.ndim == 1)]
    return (torch.optim.Muon(matrices, lr=PEAK_RATE, weight_decay=0.05, momentum=0.95,
                             adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0,
                              fused=True))


def update(model: TinyLlama, steps: tuple[torch.optim.Optimizer, ...], loss: torch.Tensor,
           learning_rate: float) -> None:
    """Change the weights of ``model`` so that ``loss`` falls. ``steps``: its optimizers."""
    for group in itertools.chain.from_iterable(s.param_groups for s in steps):
        group["lr"] = learning_rate
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in steps:
        optimizer.step()
        optimizer.zero_grad()


def report(work: Path, model: TinyLlama, pieces: list[str], line: str) -> None:
    """Save a checkpoint; write ``line`` and samples to the log."""
    torch.save({"pieces": pieces, "weights": model.state_dict()}, work / "checkpoint.pt")
    encoder = Encoder(pieces)
    with (work / "log.txt").open("a", encoding="utf-8") as log:
        print(line, file=log)
        for prompt, temperature in itertools.product(PROMPTS, (0.0, 0.8)):
            ids = model.generate([BOS, *encoder.encode(prompt)], 400, EOS, temperature)
            print(f"\n[{temperature}] {export.text(pieces, ids)}", file=log)


def train(work: Path) -> None:
    """Learn the vocabulary, then the weights; leaves ``checkpoint.pt`` in ``work``."""
    torch.manual_seed(SEED)
    shape = Shape()
    pieces = learn(compose(SEED, 6000), shape.n_vocab)
    encoder = Encoder(pieces)
    held_out = list(batches(encoder, compose, HELD_OUT_SEED, 20, 384))
    model = TinyLlama(shape)
    fast = torch.compile(model, dynamic=False)
    steps = optimizers(model)
    n_steps = sum(n for n, _, _ in STAGES)
    stream = itertools.chain.from_iterable(
        batches(encoder, source, SEED + stage, n, length)
        for stage, (n, source, length) in enumerate(STAGES, start=10))
    started = time.monotonic()
    for step, batch in enumerate(stream):
        loss = loss_of(fast, batch)
        update(model, steps, loss, rate(step, n_steps))
        if step % 100 == 0:
            print(f"{step} loss {loss.item():.4f} {time.monotonic() - started:.0f} s", flush=True)
        if (step + 1) % 500 == 0:
            with torch.no_grad():
                held = sum(loss_of(model, rest).item() for rest in held_out) / len(held_out)
            report(work, model, pieces, f"\n== {step + 1} steps, held-out loss {held:.4f}")


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--export", action="store_true", help="only write the file again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    if not options.export:
        train(options.work)
    saved = torch.load(options.work / "checkpoint.pt")
    weights = {name: w.float().numpy() for name, w in saved["weights"].items()}
    export.write(options.out, Shape(), saved["pieces"], weights, export.STORIES)


if __name__ == "__main__":
    main()
