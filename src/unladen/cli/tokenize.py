"""``unladen tokenize MODEL TEXT``: shows the tokens of a text."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._fetch import fetched
from unladen.cli._input import from_stdin

_HINT = 'unladen tokenize MODEL "a text", or pipe text in'
"""Hint where no text is given."""


def command(
    model: o.ModelArg,
    text: Annotated[str | None, typer.Argument(
        metavar="TEXT", show_default="what comes on stdin, without its last line break",
        help="What to cut into tokens.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON array.")] = False,
    pieces: Annotated[bool, typer.Option(
        "--pieces", help="Show beside each id what it stands for.")] = False,
    no_bos: Annotated[bool, typer.Option(
        "--no-bos", help="Put no BOS in front, whatever the file says.")] = False,
    no_add_special: Annotated[bool, typer.Option(
        "--no-add-special", help="Put nothing around the text: its own tokens alone.")] = False,
    continues: Annotated[bool, typer.Option(
        "--continues", help="The text continues another: no space is put before it, nothing "
                            "around it.")] = False,
    no_special: Annotated[bool, typer.Option(
        "--no-special", help="Take names of control tokens for plain text.")] = False,
    tokenizer_file: o.TokenizerFile = None,
) -> None:
    """Show the token ids of a text. Reads only the file's header."""
    from unladen.api import Model
    with Model(fetched(model), vocab_only=True, tokenizer=tokenizer_file) as loaded:
        tokenizer = loaded.tokenizer
        ids = tokenizer.encode(text if text is not None else from_stdin(_HINT),
                               add_bos=False if no_bos else None,
                               add_special=False if no_add_special else None,
                               special=not no_special, continues=continues)
    shown = [tokenizer.token_bytes(i).decode(errors="replace") for i in ids] if pieces else []
    if as_json:
        json.dump([{"id": i, "piece": p} for i, p in zip(ids, shown, strict=True)]
                  if pieces else ids, sys.stdout)
        sys.stdout.write("\n")
    elif pieces:
        for i, piece in zip(ids, shown, strict=True):
            print(f"{i:8} {piece!r}")
    else:
        print(*ids)
