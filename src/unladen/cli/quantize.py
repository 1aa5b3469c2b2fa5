"""``unladen quantize SOURCE TARGET TYPE``: writes a smaller file from a model's file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._fetch import fetched
from unladen.cli._progress import Bar
from unladen.cli._table import aligned, paragraph, room
from unladen.cli._text import visible
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.quantizing import QuantizePlan

_TENSOR_TYPE = typer.Option(
    "--tensor-type", metavar="REGEX=TYPE",
    help="Format of the tensors in whose name the expression is found; may be repeated, the first "
         "counts.")


def command(
    source: Annotated[str, typer.Argument(
        metavar="SOURCE",
        help="A GGUF file, 'tiny', 'tiny-chat', a name that unladen list shows, or "
             "org/repo:QUANT on Hugging Face.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to write.")],
    type: Annotated[str, typer.Argument(  # noqa: A002
        metavar="[TYPE]", help="A format or a mix: Q8_0, Q6_K, Q5_K_M, Q4_K_S, IQ4_XS, F16, ...")
    ] = "Q4_K_M",
    imatrix: Annotated[Path | None, typer.Option(
        "--imatrix", help="An importance matrix, as llama-imatrix makes it.")] = None,
    output_tensor_type: Annotated[str | None, typer.Option(
        "--output-tensor-type", help="Format of output.weight.")] = None,
    token_embedding_type: Annotated[str | None, typer.Option(
        "--token-embedding-type", help="Format of the token embeddings.")] = None,
    tensor_type: Annotated[list[str] | None, _TENSOR_TYPE] = None,
    pure: Annotated[bool, typer.Option(
        "--pure", help="One format for all matrices, no mix.")] = False,
    allow_requantize: Annotated[bool, typer.Option(
        "--allow-requantize", help="Also from a file that is quantized already.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace TARGET if it is there.")] = False,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Show each tensor's format and the size; write nothing.")] = False,
    threads: o.Threads = None,
) -> None:
    """Quantize a model: the same weights in fewer bits."""
    from unladen.gguf.glance import glance
    from unladen.hub import INCLUDED, resolve_model
    from unladen.quantizing import quantize
    path = resolve_model(fetched(source), aliases=INCLUDED, look=glance)
    start = time.monotonic()
    with Bar("quantizing") as bar:
        plan = quantize(path, target, type, imatrix=imatrix, output_tensor_type=output_tensor_type,
                        token_embedding_type=token_embedding_type,
                        tensor_types=[_pair(text) for text in tensor_type or []], pure=pure,
                        allow_requantize=allow_requantize, n_threads=threads, overwrite=force,
                        dry_run=dry_run,
                        progress=lambda name, written, total: bar(
                            written, total, _rate(written, start, name)))
    if dry_run:
        _print_table(plan)
    for note in plan.notes:
        print("\n".join(paragraph(visible(note), room(), "  ")), file=sys.stderr)
    summary = (f"{plan.source_bytes / 2**20:.1f} MiB -> {plan.nbytes / 2**20:.1f} MiB, "
               f"{plan.bits_per_weight:.2f} bits per weight"
               + ("" if dry_run else f", {time.monotonic() - start:.1f} s: {target}"))
    print("\n".join(paragraph(visible(summary), room(), "  ")))


def _pair(text: str) -> tuple[str, str]:
    expression, equals, quant = text.rpartition("=")
    if not equals or not expression:
        raise InvalidArgument(f"--tensor-type must be REGEX=TYPE, got {text!r}",
                              hint="for example --tensor-type 'ffn_down=Q6_K'")
    return expression, quant


def _print_table(plan: QuantizePlan) -> None:
    """Print a line for each tensor. In a narrow terminal shapes are left out; in a narrower one
    each name gets a line of its own."""
    rows = [(visible(row.source.name), " x ".join(map(str, row.source.shape)),
             f"{row.source.quant} -> {row.quant}", f"{row.entry.nbytes / 2**20:.2f} MiB")
            for row in plan.rows]
    columns = room()
    for cells in (rows, [(row[0], *row[2:]) for row in rows]):
        lines = aligned(cells)
        if max(map(len, lines), default=0) <= columns:
            break
    else:
        lines = [line for row in rows for line in (
            *paragraph(row[0], columns), f"  {row[2]}, {row[3]}")]
    print("\n".join(lines))


def _rate(written: int, start: float, name: str) -> str:
    seconds = time.monotonic() - start
    return f"{written / seconds / 2**20:.0f} MiB/s, {name}" if seconds else name
