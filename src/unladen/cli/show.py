"""``unladen show MODEL``: shows what is in a file and how much memory it takes to run it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unladen.cli import _options as o
from unladen.cli._fetch import fetched
from unladen.cli._sizes import size_text
from unladen.cli._table import fitted, paragraph, room, width
from unladen.cli._text import visible
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.hub import FoundModel
    from unladen.hub.preset import Preset
    from unladen.measure.contents import Contents

_N_FIRST = 6
"""Items of an array that are shown at most."""


def command(
    model: o.ModelArg,
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor.")] = False,
    template: Annotated[bool, typer.Option(
        "--template", help="Write the chat template and nothing else.")] = False,
    modelfile: Annotated[bool, typer.Option(
        "--modelfile", help="Write a Modelfile that makes the same model, and nothing else.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
    verify: Annotated[bool, typer.Option(
        "--verify", help="Read the whole file and compare it with the checksum of the store that "
                         "it is in; nothing else.")] = False,
) -> None:
    """Show what is in a file and what it takes to run it. Reads only the header."""
    from unladen.gguf.glance import glance
    from unladen.hub import INCLUDED, find_model
    from unladen.measure.contents import contents
    named = find_model(fetched(model), aliases=INCLUDED, look=glance)
    if verify:
        _verify(named.path)
        return
    if modelfile:
        print(visible(_modelfile(named), keep="\n\t") if sys.stdout.isatty()
              else _modelfile(named), end="")
        return
    found = contents(named.path)
    with found.file:
        if template:
            _print_template(found, named.preset)
        elif as_json:
            json.dump(_facts(found, named.preset), sys.stdout, allow_nan=False)
            sys.stdout.write("\n")
        else:
            for line in (*_lines(found, tensors=tensors), *_settings(named.preset)):
                print(line)


def _verify(path: Path) -> None:
    from unladen.hub.stores.verifying import stored_at, verify
    for checked in verify(stored_at(path)):
        print(f"{visible(os.fspath(checked))}: the SHA-256 is right")


def _modelfile(named: FoundModel) -> str:
    return _written([os.path.abspath(named.path)], named.preset)


def _written(sources: Sequence[str], preset: Preset | None) -> str:
    """A Modelfile of ``sources`` with what ``preset`` sets. A template that yields to the file's
    own is left out: the instruction would not yield."""
    from unladen.hub.modelfile.writing import written
    if preset is None:
        return written(sources)
    return written(sources, template="" if preset.yields else preset.template,
                   system=preset.system, parameters=preset.parameters, messages=preset.messages,
                   licenses=preset.licenses)


def _settings(preset: Preset | None) -> Iterator[str]:
    """The settings of a name, in the words of a Modelfile."""
    if preset is None:
        return
    columns = width()
    yield from ("", "settings")
    text = _written((), replace(preset, licenses=()))
    yield from (_cut(f"  {visible(line)}", columns) for line in text.splitlines())


def _print_template(found: Contents, preset: Preset | None) -> None:
    if preset is not None and preset.template and not (preset.yields and found.templates):
        text = preset.template
        print(visible(text, keep="\n\t") if sys.stdout.isatty() else text)
        return
    if not found.templates:
        raise InvalidArgument(f"{found.file.path} has no chat template",
                              hint="it may be a model that only continues texts")
    for name, text in found.templates.items():
        if name:
            print(f"--- {visible(name)}", file=sys.stderr)
        # In a pipe the template is passed on unchanged.
        print(visible(text, keep="\n\t") if sys.stdout.isatty() else text)


def _lines(found: Contents, *, tensors: bool) -> Iterator[str]:
    columns = width()
    yield from _head(found, columns)
    for title, lines in (("tensors by type", _types(found, columns - 2)),
                         ("tokenizer", _tokenizer(found)),
                         ("memory by context", _memory(found, columns - 2)),
                         ("metadata", _metadata(found, columns))):
        yield ""
        yield title
        yield from (_cut(f"  {line}", columns) for line in lines)
    if tensors:
        yield from ("", "tensors")
        yield from _tensors(found)


def _head(found: Contents, columns: int) -> Iterator[str]:
    file = found.file
    yield visible(file.path)
    parts = f" in {len(file.paths)} files" if len(file.paths) > 1 else ""
    yield from paragraph(f"  GGUF version {file.version}, {file.byteorder}-endian, "
                         f"{size_text(found.file_bytes)}{parts}", columns)
    arch = visible(found.arch) or "no architecture"
    length = f", trained for {found.context_length:,} tokens" if found.context_length else ""
    yield from paragraph(f"  {arch}: {found.n_elements:,} parameters{length}", columns)
    yield "  it can run" if not found.problems else "  it can't run:"
    for problem in found.problems:
        yield from paragraph(f"    {visible(problem)}", columns, "      ")


def _types(found: Contents, columns: int) -> Iterator[str]:
    rows = [(t.quant, f"{t.n_tensors:,}", f"{t.n_elements:,}", size_text(t.n_bytes),
             f"{8 * t.n_bytes / t.n_elements:.2f}") for t in found.types]
    whole = (f"{len(found.file.tensors):,}", f"{found.n_elements:,}", size_text(found.n_bytes))
    yield from fitted(("type", "tensors", "numbers", "size", "bits each"),
                      [*rows, ("all", *whole, "")], columns)


def _tokenizer(found: Contents) -> Iterator[str]:
    tokenizer = found.tokenizer
    if tokenizer is None:
        yield "none that can be used"
        return
    pre = f", pre-tokenizer {visible(tokenizer.pre)}" if tokenizer.pre else ""
    yield f"{visible(tokenizer.kind)}, {tokenizer.n_vocab:,} tokens{pre}"
    for name, token_id in tokenizer.token_ids.items():
        yield f"{name:8} {_token(found, token_id)}"
    ends = ", ".join(_token(found, i) for i in sorted(tokenizer.eog_ids))
    yield f"ends     {ends or 'none'}"
    yield f"adds     {' and '.join(tokenizer.adds) or 'nothing'} to a text"
    for name, text in found.templates.items() or [("", "")]:
        size = f"{len(text):,} characters (--template shows it)" if text else "none"
        yield f"chat template{visible(f' {name}') if name else ''}: {size}"


def _token(found: Contents, token_id: int) -> str:
    assert found.tokenizer is not None
    return f"{token_id} {visible(found.tokenizer.token_text(token_id))}"


def _memory(found: Contents, columns: int) -> Iterator[str]:
    if not found.memory:
        yield "unknown, because it can't run"
        return
    state = f" and {size_text(found.state_bytes)} of state" if found.state_bytes else ""
    yield from paragraph(f"weights take {size_text(found.n_bytes)}{state}; with a cache for one "
                         "sequence, in all:", columns)
    types = list(found.memory[0].kv_bytes)
    fixed = found.n_bytes + found.state_bytes
    yield from fitted(("tokens", *(f"{t} cache" for t in types)), [
        (f"{m.n_tokens:,}", *("-" if n is None else size_text(fixed + n)
                              for n in m.kv_bytes.values())) for m in found.memory], columns)


def _metadata(found: Contents, columns: int) -> Iterator[str]:
    metadata = found.file.metadata
    at = min(44, max(map(len, metadata), default=0))
    for key, value in metadata.items():
        text = visible(_one_line(value))
        if columns >= at + 30:
            yield f"{visible(key):{at}} {text}"
        else:
            yield from (visible(key), f"  {text}")


def _tensors(found: Contents) -> Iterator[str]:
    rows = [(visible(t.name), t.quant, " x ".join(map(str, t.shape)), size_text(t.nbytes))
            for t in found.file.tensors.values()]
    yield from (f"  {line}" for line in fitted(("name", "type", "shape", "size"), rows, room() - 2))


def _one_line(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        return str(value)
    items = ", ".join(repr(value[i]) for i in range(min(len(value), _N_FIRST)))
    return f"{len(value):,} values: {items}{', ...' if len(value) > _N_FIRST else ''}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[:width - 4] + " ..."


def _facts(found: Contents, preset: Preset | None) -> dict[str, Any]:
    file, tokenizer = found.file, found.tokenizer
    return {
        "path": os.fspath(file.path), "files": list(file.paths), "file_bytes": found.file_bytes,
        "version": file.version, "byteorder": file.byteorder,
        "arch": found.arch, "can_run": not found.problems, "problems": list(found.problems),
        "n_parameters": found.n_elements, "n_bytes": found.n_bytes,
        "n_tensors": len(file.tensors), "quants": {t.quant: t.n_tensors for t in found.types},
        "context_length": found.context_length, "state_bytes": found.state_bytes,
        "kv_bytes": [{"n_tokens": m.n_tokens, **m.kv_bytes} for m in found.memory],
        "tokenizer": None if tokenizer is None else {
            "kind": tokenizer.kind, "pre": tokenizer.pre, "n_vocab": tokenizer.n_vocab,
            "token_ids": dict(tokenizer.token_ids), "eog_ids": sorted(tokenizer.eog_ids),
            "add_bos": tokenizer.add_bos, "add_eos": tokenizer.add_eos},
        "chat_templates": dict(found.templates),
        "settings": None if preset is None else {
            "template": preset.template, "system": preset.system,
            "parameters": dict(preset.parameters),
            "messages": [dict(each) for each in preset.messages]},
        "metadata": {key: _plain(value) for key, value in file.metadata.items()},
        "tensors": [{"name": t.name, "shape": list(t.shape), "quant": t.quant,
                     "n_bytes": t.nbytes} for t in file.tensors.values()],
    }


def _plain(value: object) -> object:
    """``value`` for JSON: an array by its length and first items, NaN and infinities as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {"n": len(value), "first": [_plain(value[i])
                                           for i in range(min(len(value), _N_FIRST))]}
    return value
