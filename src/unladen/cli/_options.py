"""Options that several commands share, other than those for devices; and how they are read."""

from __future__ import annotations

from typing import Annotated

import typer

from unladen.cli._extend import option
from unladen.errors import InvalidArgument
from unladen.parameters.model import MODEL

ModelArg = Annotated[str, typer.Argument(
    metavar="MODEL", help="A GGUF file, 'tiny', or org/repo:QUANT on Hugging Face.")]
ContextSize = Annotated[int | None, option(MODEL.parameters["context_size"])]
CacheTokens = Annotated[int | None, option(MODEL.parameters["cache_tokens"])]
BatchSize = Annotated[int, option(MODEL.parameters["batch_size"])]
Threads = Annotated[int | None, option(MODEL.parameters["n_threads"])]
ThreadsBatch = Annotated[int | None, option(MODEL.parameters["n_threads_batch"])]
KVType = Annotated[str, option(MODEL.parameters["kv_type"])]
Deterministic = Annotated[bool, option(MODEL.parameters["deterministic"])]
Speculate = Annotated[bool, option(MODEL.parameters["speculate"])]
NDraft = Annotated[int, option(MODEL.parameters["n_draft"])]
TokenizerFile = Annotated[str | None, option(MODEL.parameters["tokenizer"])]
OnOom = Annotated[str | None, option(MODEL.parameters["on_oom"])]


def kv_types(text: str) -> str | tuple[str, str]:
    """The cache's type for keys and values, or a pair of types."""
    k_type, comma, v_type = text.partition(",")
    return (k_type, v_type) if comma else text


def numbers(text: str, option: str, *, least: int) -> list[int]:
    """A list of whole numbers, each at least ``least``, from a text with commas."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < least:
        raise InvalidArgument(f"{option} must be a list of numbers from {least} on, got {text!r}",
                              hint=f"for example {option} {max(least, 1)},128")
    return values
