"""Options that several commands share, other than those for devices; and how they are read."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

from unladen.cli._extend import option
from unladen.errors import InvalidArgument
from unladen.parameters.chat import EFFORTS
from unladen.parameters.model import MODEL

ModelArg = Annotated[str, typer.Argument(
    metavar="MODEL", help="A GGUF file, 'tiny', 'tiny-chat', a name that unladen list shows, "
                          "a short name such as llama3.2:1b, or org/repo:QUANT on Hugging Face.")]
Threads = Annotated[int | None, option(MODEL.parameters["n_threads"])]
KVType = Annotated[str, option(MODEL.parameters["kv_type"])]
TokenizerFile = Annotated[str | None, option(MODEL.parameters["tokenizer"])]
System = Annotated[str | None, typer.Option(
    "--system", metavar="TEXT", show_default="none", help="The system message of a chat.")]
Tools = Annotated[str | None, typer.Option(
    "--tools", metavar="FILE", show_default="none",
    help="Tools that the model may call: a JSON list as OpenAI's clients define them.")]
Reasoning = Annotated[str | None, typer.Option(
    "--reasoning", metavar="on|off|EFFORT|N|Ns", show_default="as the template says",
    help="Whether the model thinks first: on, off, low, medium, high; at most N tokens, or N "
         "seconds (10s).")]
Template = Annotated[str | None, typer.Option(
    "--template", metavar="FORMAT", show_default="the file's",
    help="The name of a format such as chatml, or a Jinja text, in place of the file's template.")]

SWITCHES: Final = {"on": True, "true": True, "yes": True, "off": False, "false": False,
                   "no": False, "none": False, "0": False}
"""Words that turn reasoning on or off."""
_LIMIT: Final = re.compile(r"([0-9]{1,9})(?:(\.[0-9]{1,9})?s)?")
"""A number of tokens, or of seconds."""


def reasoning_of(text: str | None) -> dict[str, Any]:
    """The parameters of a chat that ``--reasoning TEXT`` sets: a switch, an effort, a number of
    tokens, or seconds. Raises :class:`InvalidArgument`."""
    if text is None:
        return {}
    word = text.strip().lower()
    if word in SWITCHES:
        return {"reasoning": SWITCHES[word]}
    if word in EFFORTS:
        return {"reasoning": word}
    if not _LIMIT.fullmatch(word):
        raise InvalidArgument(
            f"--reasoning must be on, off, {', '.join(EFFORTS)}, a number of tokens or seconds "
            f"such as 10s, got {text!r}", hint="for example --reasoning off, or --reasoning 200")
    limit = ({"reasoning_seconds": float(word[:-1])} if word.endswith("s")
             else {"reasoning_tokens": int(word)})
    return {"reasoning": True, **limit}


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
