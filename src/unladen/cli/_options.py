"""Options that several commands share beside those of placement, and what becomes of them."""

from __future__ import annotations

from typing import Annotated

import typer

from unladen.errors import InvalidArgument

ModelArg = Annotated[str, typer.Argument(
    metavar="MODEL", help="A GGUF file, 'tiny', or org/repo:QUANT on Hugging Face.")]
ContextSize = Annotated[int | None, typer.Option(
    "--context-size", "-c", show_default="the model's", help="Tokens of context.")]
BatchSize = Annotated[int, typer.Option("--batch-size", "-b", help="Tokens in one step.")]
Threads = Annotated[int | None, typer.Option(
    "--threads", "-t", show_default="one a core", help="Threads.")]
ThreadsBatch = Annotated[int | None, typer.Option(
    "--threads-batch", show_default="as --threads", help="Threads for prompts.")]
KVType = Annotated[str, typer.Option(
    "--kv-type", help="Type of the KV cache: f16, f32, q8_0, or two by comma for K and V.")]
Speculate = Annotated[bool, typer.Option(
    "--speculate/--no-speculate", help="Guess ahead where the text repeats itself, if it pays: the "
                                       "same text, sooner.")]
NDraft = Annotated[int, typer.Option("--n-draft", help="Tokens guessed ahead at most.")]
TokenizerFile = Annotated[str | None, typer.Option(
    "--tokenizer", show_default="the model's own", help="A tokenizer.json to use instead.")]
OnOom = Annotated[str | None, typer.Option(
    "--on-oom", show_default="an error", help="What to give up where memory runs out, by comma: "
                                              "ubatch, kv:TYPE, layers, context.")]


def kv_types(text: str) -> str | tuple[str, str]:
    """One type for keys and values, or one for each."""
    k_type, comma, v_type = text.partition(",")
    return (k_type, v_type) if comma else text


def numbers(text: str, option: str, *, least: int) -> list[int]:
    """Whole numbers by comma, each at least ``least``."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < least:
        raise InvalidArgument(f"{option} {text!r} is no list of numbers from {least} on",
                              hint=f"for example {option} {max(least, 1)},128")
    return values
