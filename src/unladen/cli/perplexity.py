"""``unladen perplexity MODEL``: how well a model predicts a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._loading import loadable
from unladen.cli._notes import note_unused
from unladen.cli._placement import placeable
from unladen.cli._progress import Bar
from unladen.cli._table import paragraph, room
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.api import Model
    from unladen.measure.perplexity import Evaluation


@placeable
@loadable("batch_size", "n_threads", "kv_type", "tokenizer")
def command(
    model: o.ModelArg,
    text: Annotated[Path | None, typer.Option("--text", "-f", help="A text file.")] = None,
    ids: Annotated[Path | None, typer.Option("--ids", help="A JSON list of token ids.")] = None,
    chunk: Annotated[int, typer.Option("--chunk", help="Tokens of a chunk.")] = 512,
    save_logits: Annotated[Path | None, typer.Option(
        "--save-logits", help="Write the log-probabilities, as a base for --kl-base.")] = None,
    kl_base: Annotated[Path | None, typer.Option(
        "--kl-base", help="Also show the divergence from these log-probabilities.")] = None,
    precise: Annotated[bool, typer.Option(
        "--precise", help="Keep activations float32 where they meet quantized weights.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
    *, loading: Parameters, placement: Parameters,
) -> None:
    """Perplexity of a text, and the divergence from another model's predictions."""
    from unladen.api import Model
    from unladen.measure.perplexity import Evaluation
    loaded = Model(fetched(model), context_size=chunk, precise=precise, **loading, **placement)
    with loaded:
        note_unused(loaded, placement, as_json=as_json)
        evaluation = Evaluation(loaded, _tokens(loaded, text, ids), chunk)
        with Bar("perplexity") as bar:
            result: dict[str, Any] = asdict(evaluation.perplexity(
                lambda n, value: bar(n, evaluation.n_chunks, f"PPL {value:.4f}")))
        if save_logits is not None:
            with Bar("log-probabilities") as bar:
                _save(evaluation, save_logits, lambda n: bar(n, evaluation.n_chunks))
        if kl_base is not None:
            with Bar("divergence") as bar:
                result |= asdict(evaluation.divergence(
                    kl_base, lambda n: bar(n, evaluation.n_chunks)))
    if as_json:
        json.dump(result, sys.stdout)
        sys.stdout.write("\n")
        return
    _say(f"PPL = {result['value']:.4f} +/- {result['error']:.4f} "
         f"({result['n_scored']} tokens scored)")
    if kl_base is not None:
        _say(f"KL = {result['mean_kl']:.6f} nats, same top token {result['same_top']:.2%}")


def _say(text: str) -> None:
    print("\n".join(paragraph(text, room(), "  ")))


def _tokens(model: Model, text: Path | None, ids: Path | None) -> list[int]:
    if (text is None) == (ids is None):
        raise InvalidArgument("there is no text to measure" if text is None else
                              "there are two texts to measure",
                              hint="give either --text FILE or --ids FILE")
    if text is not None:
        return model.tokenize(_read(text))
    assert ids is not None
    try:
        tokens = json.loads(_read(ids))
    except json.JSONDecodeError:
        tokens = None
    if not isinstance(tokens, list) or any(type(token) is not int for token in tokens):
        raise InvalidArgument(f"{ids} isn't a JSON list of token ids",
                              hint="for example [1, 403, 407]")
    return tokens


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} can't be read: {_reason(error)}",
                              hint="give a file of UTF-8 text") from None


def _save(evaluation: Evaluation, path: Path, progress: Callable[[int], None]) -> None:
    try:
        evaluation.save(path, progress)
    except OSError as error:
        raise InvalidArgument(f"{path} can't be written: {_reason(error)}",
                              hint="give --save-logits another place") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
