"""Trains the chat model and writes it as ``src/unladen/data/chat.gguf``.

From the project's root, with PyTorch 2.13.0 (CPU) and a C++ compiler, about forty minutes on
one core::

    pip install torch==2.13.0 numpy jinja2
    PYTHONPATH=src python tools/tiny/train_chat.py --work build/chat

``--work`` receives the checkpoint; ``--resume`` goes on from it, ``--export`` only writes the file
again from it. The seeds are fixed; another processor or release of PyTorch may round differently
and give another, equally good model.
"""

from __future__ import annotations

import argparse
import itertools
import random
import string
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import dialogues
import export
import torch
from dialogues import Dialogue, render
from model import Shape, TinyLlama
from torch.nn import functional as F
from train import PEAK_RATE, optimizers, update
from vocab import APART, Encoder, learn

OUT = Path(__file__).parents[2] / "src/unladen/data/chat.gguf"
SEED, HELD_OUT_SEED = 1, 2
MARKS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
"""Tokens of their own: they mark turns, reasoning and calls."""
SHAPE = Shape(n_vocab=2048, n_embd=192, n_layer=5, n_head=6, n_ff=448, n_ctx=1024)


class Part(NamedTuple):
    """Rows of one length in every step of a stage: kinds of dialogues, length, number of rows."""

    kinds: tuple[str, ...]
    length: int
    n_rows: int


SHORT = Part(("talk", "facts", "tale"), 256, 4)
"""Most dialogues are short, and attention over short rows costs less time."""
LONG = ("tools", "tools", "")
"""Kinds of dialogues of which many are long."""
STAGES = (
    (2000, (Part(("facts", "talk"), 128, 12),)),
    (3500, (SHORT, Part(LONG, 512, 2))),
    (50, (SHORT, Part(LONG, 768, 2))))
"""The stages of training: number of steps, what each step reads.

The first stage trains on short dialogues that ask for what was just said: the model learns to copy
names and numbers, which long dialogues would teach only late.
"""
FALLS = ((2400, 450), (240, 0))
"""Lines along which the learning rate falls: steps from the peak to nothing, and how many of them
would come after the last step. The second line is the steeper one, of the last stage."""
N_TEXTS = 12
"""Words in fewer of 8,000 dialogues become no pieces: made names are to be spelled in pieces that
occur often, so that any name can be copied."""
PRINTABLE = string.ascii_letters + string.digits + string.punctuation
"""Characters that get a piece in any case, because users may write them."""
CONTEXT_WEIGHT = 0.1
"""Share of the loss of tokens that the model reads but doesn't write."""
N_TURN = 32
"""Tokens that a turn of the model counts for at most. In a story most words are free to choose, so
they teach less than the name or the number in a short answer."""
POOL = 48
"""Dialogues to choose from when a row is filled."""


class Batch(NamedTuple):
    """Rows of dialogues: ids and weights [rows, length + 1], groups: which dialogue each is of."""

    ids: torch.Tensor
    weights: torch.Tensor
    groups: torch.Tensor


def encoder_of(pieces: list[str]) -> Encoder:
    """Text with marks to ids."""
    return Encoder(pieces, APART, "", MARKS)


def weights_of(ids: list[int], encoder: Encoder) -> list[float]:
    """The weight of each token's loss. What counts is what the model writes after its headers."""
    header = encoder.encode("<|im_start|>assistant\n")
    opening = encoder.encode("<think>\n")
    end = encoder.ids["<|im_end|>"]
    weights = [CONTEXT_WEIGHT] * len(ids)
    i = 0
    while i < len(ids):
        if ids[i:i + len(header)] != header:
            i += 1
            continue
        i += len(header)
        if ids[i:i + len(opening)] == opening:
            i += len(opening)
        n = ids.index(end, i) + 1 - i
        weights[i:i + n] = [min(1.0, N_TURN / n)] * n
        i += n
    return weights


def composed(seed: int, kinds: tuple[str, ...]) -> Iterator[Dialogue]:
    """Dialogues of ``kinds`` without an end."""
    composer = dialogues.Composer(random.Random(seed))
    while True:
        yield composer.compose(composer.rng.choice(kinds))


def row_of(pool: list[list[int]], source: Iterator[list[int]], length: int) -> list[list[int]]:
    """Dialogues that fill a row of ``length`` as far as those in ``pool`` do."""
    row: list[list[int]] = []
    room = length
    while True:
        while len(pool) < POOL:
            pool.append(next(source))
        fitting = next((ids for ids in pool if len(ids) <= room), None)
        if fitting is None:
            return row
        pool.remove(fitting)
        row.append(fitting)
        room -= len(fitting)


def batches(encoder: Encoder, seed: int, part: Part) -> Iterator[Batch]:
    """Rows of whole dialogues, padded to the part's length + 1, without an end."""
    kinds, length, n_rows = part
    encoded = (encoder.encode(render(d)) for d in composed(seed, kinds))
    source = (ids for ids in encoded if len(ids) <= length)
    pool: list[list[int]] = []
    while True:
        batch: list[tuple[list[int], list[float], list[int]]] = []
        for _ in range(n_rows):
            row = row_of(pool, source, length)
            ids = [i for part in row for i in part]
            weights = [w for part in row for w in (0.0, *weights_of(part, encoder)[1:])]
            groups = [n for n, part in enumerate(row) for _ in part]
            rest = length + 1 - len(ids)
            batch.append((ids + [0] * rest, weights + [0.0] * rest, groups + [-1] * rest))
        ids_, weights_, groups_ = zip(*batch, strict=True)
        yield Batch(torch.tensor(ids_), torch.tensor(weights_), torch.tensor(groups_))


def left(encoder: Encoder, n_done: int) -> Iterator[tuple[Batch, ...]]:
    """The batches of each step that is left after ``n_done`` steps."""
    for stage, (n, parts) in enumerate(STAGES, start=1):
        if n_done < n:
            rows = [batches(encoder, SEED + 10 * stage + i, part) for i, part in enumerate(parts)]
            yield from itertools.islice(zip(*rows, strict=True), n_done, n)
        n_done = max(0, n_done - n)


def loss_of(model: torch.nn.Module, step: Iterable[Batch]) -> torch.Tensor:
    """The mean loss of the weighted tokens. Each dialogue sees only itself."""
    total, weight = torch.zeros(()), torch.zeros(())
    for batch in step:
        groups = batch.groups[:, :-1]
        length = groups.shape[1]
        seen = (groups[:, :, None] == groups[:, None, :]) & torch.ones(length, length).tril().bool()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch.ids[:, :-1], seen[:, None])
        losses = F.cross_entropy(logits.float().flatten(0, 1), batch.ids[:, 1:].flatten(),
                                 reduction="none")
        weights = batch.weights[:, 1:].flatten()
        total = total + (losses * weights).sum()
        weight = weight + weights.sum()
    return total / weight


def rate(step: int, n_steps: int) -> float:
    """The learning rate: a short warm-up, the peak, then down along ``FALLS`` to nothing."""
    ahead = n_steps - step
    return PEAK_RATE * min(1.0, (step + 1) / 50, *((ahead + late) / n for n, late in FALLS))


def save(work: Path, pieces: list[str], model: TinyLlama,
         steps: tuple[torch.optim.Optimizer, ...], step: int) -> None:
    """Save all that training needs to go on after ``step`` steps."""
    torch.save({"pieces": pieces, "weights": model.state_dict(), "step": step,
                "optimizers": [s.state_dict() for s in steps]}, work / "checkpoint.new")
    (work / "checkpoint.new").replace(work / "checkpoint.pt")


def begin(work: Path, resume: bool
          ) -> tuple[list[str], TinyLlama, tuple[torch.optim.Optimizer, ...], int]:
    """Vocabulary, model, optimizers and steps done: new ones, or those of the checkpoint."""
    torch.manual_seed(SEED)
    model = TinyLlama(SHAPE)
    steps = optimizers(model)
    if resume:
        saved = torch.load(work / "checkpoint.pt")
        model.load_state_dict(saved["weights"])
        for optimizer, state in zip(steps, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        return saved["pieces"], model, steps, saved["step"]
    texts = map(render, itertools.islice(composed(SEED, ("",)), 8000))
    pieces = learn(texts, SHAPE.n_vocab, APART, "", MARKS, N_TEXTS, PRINTABLE)
    return pieces, model, steps, 0


def train(work: Path, resume: bool) -> None:
    """Learn the vocabulary, then the weights; leaves ``checkpoint.pt`` in ``work``."""
    pieces, model, steps, n_done = begin(work, resume)
    encoder = encoder_of(pieces)
    held_out = list(itertools.islice(batches(encoder, HELD_OUT_SEED, Part(("",), 512, 3)), 8))
    fast = torch.compile(model, dynamic=False)
    n_steps = sum(n for n, _ in STAGES)
    started = time.monotonic()
    for step, read in enumerate(left(encoder, n_done), n_done):
        loss = loss_of(fast, read)
        update(model, steps, loss, rate(step, n_steps))
        if step % 50 == 0:
            print(f"{step} loss {loss.item():.4f} {time.monotonic() - started:.0f} s", flush=True)
        if (step + 1) % 250 == 0 or step + 1 == n_steps:
            save(work, pieces, model, steps, step + 1)
            with torch.no_grad():
                held = loss_of(model, held_out).item()
            print(f"== {step + 1} steps, held-out loss {held:.4f}", flush=True)


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--export", action="store_true", help="only write the file again")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    if not options.export:
        train(options.work, options.resume)
    saved = torch.load(options.work / "checkpoint.pt")
    weights = {name: w.float().numpy() for name, w in saved["weights"].items()}
    export.write(options.out, SHAPE, saved["pieces"], weights, export.CHAT)


if __name__ == "__main__":
    main()
