"""Measures how well a model predicts a text: perplexity, and the divergence from another model."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unladen.api import Model
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Called, OrNone, PathText, Whole, reject, token_ids

Logprobs = npt.NDArray[np.float32]
_PROGRESS = OrNone(Called("a function of a number of chunks and a perplexity"))


@dataclass(frozen=True, slots=True)
class Perplexity:
    """exp of the mean negative log-probability of ``n_scored`` tokens, and its standard error."""

    value: float
    error: float
    n_scored: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """The divergence of a model from a base: the mean Kullback-Leibler divergence in nats, and the
    share of positions where both have the same likeliest token."""

    mean_kl: float
    same_top: float


class Evaluation:
    """The log-probabilities of a text, chunk by chunk.

    The text is cut into chunks of ``chunk`` tokens; a shorter rest is left out. Each chunk starts
    with an empty cache, and with BOS in place of its first token if the model adds BOS. The second
    half of a chunk is scored, so every scored token has at least half a chunk before it.
    """

    def __init__(self, model: Model, tokens: Sequence[int], chunk: int = 512) -> None:
        chunk, ids = Whole(1).of("chunk", chunk), token_ids("tokens", tokens)
        if not isinstance(model, Model):
            reject("model", "an unladen.Model", model)
        if chunk < 4 or len(ids) < chunk:
            raise InvalidArgument(f"a chunk of {chunk} tokens must have at least 4 and at most the "
                                  f"text's {len(ids)}",
                                  hint="give a longer text or a smaller --chunk (at least 4)")
        self._model = model
        self._tokens = ids
        self._chunk = chunk
        self.n_chunks = len(ids) // chunk

    def chunks(self) -> Iterator[tuple[Logprobs, npt.NDArray[np.int64]]]:
        """For each chunk: the log-probabilities f32 [n, n_vocab] before each scored token, and the
        scored tokens."""
        first = self._chunk // 2
        tokenizer = self._model.tokenizer
        for i in range(self.n_chunks):
            tokens = self._tokens[i * self._chunk:(i + 1) * self._chunk]
            if tokenizer.add_bos and tokenizer.bos_id is not None:
                tokens[0] = tokenizer.bos_id
            logits = self._model.logits(tokens)[first:-1]
            yield log_softmax(logits), np.asarray(tokens[first + 1:])

    def perplexity(self, progress: Callable[[int, float], None] | None = None) -> Perplexity:
        """The perplexity. ``progress`` is called with the chunks done and the value so far."""
        _PROGRESS.of("progress", progress)
        losses: list[float] = []
        for i, (logprobs, wanted) in enumerate(self.chunks(), 1):
            losses += (-logprobs[np.arange(len(wanted)), wanted]).tolist()
            if progress is not None:
                progress(i, math.exp(sum(losses) / len(losses)))
        mean = sum(losses) / len(losses)
        # A single loss has no standard deviation.
        spread = np.std(losses, ddof=1) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
        return Perplexity(math.exp(mean), float(math.exp(mean) * spread), len(losses))

    def save(self, path: Path, progress: Callable[[int], None] | None = None) -> None:
        """Write the log-probabilities, from which :meth:`divergence` of another model is measured.
        ``progress`` is called with the chunks done."""
        path = Path(PathText().of("path", path))
        _PROGRESS.of("progress", progress)
        found = []
        for i, (rows, _) in enumerate(self.chunks(), 1):
            found.append(rows)
            if progress is not None:
                progress(i)
        logprobs = np.concatenate(found)
        with path.open("wb") as file:
            np.savez(file, logprobs=logprobs, tokens=np.asarray(self._tokens), chunk=self._chunk)

    def divergence(self, base: Path, progress: Callable[[int], None] | None = None) -> Divergence:
        """The divergence of this model from the one whose log-probabilities are in ``base``;
        ``progress`` is called with the chunks done."""
        base = Path(PathText().of("base", base))
        _PROGRESS.of("progress", progress)
        saved = _load(base)
        if not (np.array_equal(saved["chunk"], self._chunk)
                and np.array_equal(saved["tokens"], self._tokens)):
            raise InvalidArgument(f"{base} was made from another text or with another chunk size",
                                  hint="make it again with this text and --chunk")
        total = same = row = 0.0
        for i, (logprobs, _) in enumerate(self.chunks(), 1):
            if progress is not None:
                progress(i)
            wanted = saved["logprobs"][int(row):int(row) + len(logprobs)].astype(np.float64)
            if wanted.shape != logprobs.shape:
                raise InvalidArgument(f"{base} was made with a model of another vocabulary",
                                      hint="make it again with a model of the same vocabulary")
            total += float((np.exp(wanted) * (wanted - logprobs)).sum())
            same += float((wanted.argmax(axis=1) == logprobs.argmax(axis=1)).sum())
            row += len(logprobs)
        return Divergence(total / row, same / row)


def log_softmax(logits: npt.NDArray[np.float32]) -> Logprobs:
    """Natural log-probabilities of f32 [n, n_vocab], summed in float64."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    result: Logprobs = (wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))).astype(np.float32)
    return result


def _load(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in ("logprobs", "tokens", "chunk")}
        if arrays["logprobs"].ndim != 2:
            raise ValueError("they aren't a table")
        return arrays
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidArgument(f"{path} holds no saved log-probabilities: {error}",
                              hint="make it with --save-logits") from None
