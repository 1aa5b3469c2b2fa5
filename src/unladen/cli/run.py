"""``unladen run MODEL [PROMPT]``: continue a text."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from unladen.cli import _options as o
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.api import Stream
    from unladen.types import Completion


def command(
    model: o.ModelArg,
    prompt: Annotated[str | None, typer.Argument(
        help="The text to continue.  [default: what comes on stdin]")] = None,
    max_tokens: Annotated[int | None, typer.Option(
        "--max-tokens", "-n", help="Tokens to write.  [default: to the end of the context]")] = None,
    temp: Annotated[float, typer.Option("--temp", help="Temperature; 0 takes the likeliest.")] = 0.8,
    top_k: Annotated[int, typer.Option("--top-k", help="Keep the k likeliest; 0: all.")] = 40,
    top_p: Annotated[float, typer.Option("--top-p", help="Keep this much probability.")] = 0.95,
    min_p: Annotated[float, typer.Option("--min-p", help="Keep what is this likely or more, "
                                         "relative to the likeliest.")] = 0.05,
    repeat_penalty: Annotated[float, typer.Option(
        "--repeat-penalty", help="Make recent tokens less likely; 1: off.")] = 1.0,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeats a run.")] = None,
    stop: Annotated[list[str] | None, typer.Option(
        "--stop", help="End at this text; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
    context_size: o.ContextSize = None, batch_size: o.BatchSize = 512, threads: o.Threads = None,
    threads_batch: o.ThreadsBatch = None, kv_type: o.KVType = "f16", device: o.DeviceOption = None,
    gpu_layers: o.GpuLayers = "auto", tensor_split: o.TensorSplit = None,
    override_tensor: o.OverrideTensor = None, strict: o.Strict = False, no_mmap: o.NoMmap = False,
) -> None:
    """Continue a text. Only the continuation goes to stdout."""
    if prompt is None:
        if sys.stdin.isatty():
            raise InvalidArgument("there is no prompt",
                                  hint='unladen run MODEL "Once upon a time", or pipe text in')
        prompt = sys.stdin.read()
    loaded = o.load_model(
        model, context_size=context_size, batch_size=batch_size, threads=threads,
        threads_batch=threads_batch, kv_type=kv_type, device=device, gpu_layers=gpu_layers,
        tensor_split=tensor_split, override_tensor=override_tensor, strict=strict, no_mmap=no_mmap)
    with loaded, loaded.stream(
            prompt, max_tokens=max_tokens, stop=stop or (), temperature=temp, top_k=top_k,
            top_p=top_p, min_p=min_p, repeat_penalty=repeat_penalty,
            **({} if seed is None else {"seed": seed})) as stream:
        if as_json:
            _write_json(stream)
        else:
            _write_text(stream)
        if sys.stderr.isatty():
            _show_timings(stream.result)


def _write_text(stream: Stream) -> None:
    for piece in stream:
        sys.stdout.write(piece)
        sys.stdout.flush()
    if sys.stdout.isatty():
        sys.stdout.write("\n")


def _write_json(stream: Stream) -> None:
    for _ in stream:
        pass
    json.dump(asdict(stream.result), sys.stdout)
    sys.stdout.write("\n")


def _show_timings(result: Completion) -> None:
    t, u = result.timings, result.usage
    print(f"[{u.n_prompt} tokens of prompt at {t.prompt_per_second:.1f}/s, {u.n_completion} written "
          f"at {t.completion_per_second:.1f}/s, ended by {result.stop_reason}]", file=sys.stderr)
