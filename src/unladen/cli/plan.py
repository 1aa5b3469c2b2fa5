"""``unladen plan MODEL``: what would run where, before anything is allocated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._placement import placeable

if TYPE_CHECKING:
    from unladen.api import PlanReport

_MIB = 2**20
_NARROWEST = 100


@placeable
def command(
    model: o.ModelArg,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
    svg: Annotated[Path | None, typer.Option(
        "--svg", help="Write a picture of layers over devices to this file.")] = None,
    pretend: Annotated[str | None, typer.Option(
        "--pretend", help="Plan for devices that aren't there, beside the CPU: 2x24GB, or "
                          "24GB:1000GBs,8GB:300GBs (memory, bandwidth, link).")] = None,
    explain: Annotated[bool, typer.Option(
        "--explain", help="List every node, its device, and why.")] = False,
    context_size: o.ContextSize = None, batch_size: o.BatchSize = 512, kv_type: o.KVType = "f16",
    *, placement: Parameters,
) -> None:
    """Show what would run where: bytes by device and predicted speed. Allocates nothing."""
    from unladen.api import plan
    report = plan(model, pretend=pretend, context_size=context_size, batch_size=batch_size,
                  kv_type=o.kv_types(kv_type), **placement)
    if svg is not None:
        svg.write_text(report.svg(), encoding="utf-8")
    if as_json:
        json.dump(report.facts(), sys.stdout)
        sys.stdout.write("\n")
    else:
        _show(report)
    if explain:
        print(report.draft.explain())


def _show(report: PlanReport) -> None:
    from rich.console import Console
    from rich.table import Table
    left, wide = report.left, ("mapped", "weights", "KV", "arena", "ring", "staging", "left")
    table = Table(title=f"{report.title}, context of {report.context_size:,} tokens (MiB)",
                  title_justify="left")
    table.add_column("device")
    for name in ("layers", *wide):
        table.add_column(name, justify="right")
    for m in report.devices:
        sizes = (m.mapped_bytes, m.weight_bytes, m.kv_bytes, m.arena_bytes, m.ring_bytes,
                 m.staging_bytes, left[m.device.name])
        table.add_row(m.device.name, str(report.layers_on(m.device.name)),
                      *(f"{n / _MIB:,.1f}" for n in sizes),
                      style=None if left[m.device.name] >= 0 else "bold red")
    console = Console(highlight=False)
    console.width = max(console.width, _NARROWEST)
    console.print(table)
    for line in [*report.draft.offloaded(), *report.speed(), *_bar(report)]:
        print(line)
    if not report.fits():
        print("this does not fit: a device has less memory than it needs", file=sys.stderr)


def _bar(report: PlanReport) -> list[str]:
    """A letter for each layer: the devices in the order of the table."""
    names = [m.device.name for m in report.devices]
    letters = {name: ascii_uppercase[i % 26] for i, name in enumerate(names)}
    legend = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return [f"layers: {''.join(letters[d.name] for d in report.draft.layers)} ({legend})"]
