"""``unladen plan MODEL``: shows what would run where, before anything is allocated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Final

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._loading import loadable
from unladen.cli._notes import note, note_devices
from unladen.cli._placement import placeable
from unladen.cli._table import fitted, legend, paragraph, room
from unladen.cli._text import visible
from unladen.errors import InvalidArgument
from unladen.types import MAIN

if TYPE_CHECKING:
    from unladen.api import PlanReport

_MIB = 2**20
_SIZES: Final = {
    "mapped": "weights used where they lie in the file", "weights": "weights copied to the device",
    "KV": "cache of keys and values of all sequences",
    "arena": "what a step computes on the way, reused by the next",
    "ring": "room for the CPU's weights on their way through the device in prompts",
    "staging": "room on the host for what is copied to and from devices",
    "left": "what stays free of the memory that is free now"}
"""The columns of sizes, and the meaning of each for the legend."""


@placeable
@loadable("context_size", "cache_tokens", "batch_size", "kv_type")
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
    *, loading: Parameters, placement: Parameters,
) -> None:
    """Show what would run where: bytes by device and predicted speed. Allocates nothing."""
    from unladen.api import plan
    report = plan(fetched(model), pretend=pretend, **loading, **placement)
    if svg is not None:
        _draw(report, svg)
    _note(report, placement, as_json=as_json)
    if as_json:
        json.dump(report.facts(), sys.stdout)
        sys.stdout.write("\n")
    else:
        _show(report)
    if explain:
        print(report.blueprint.explain())


def _draw(report: PlanReport, path: Path) -> None:
    try:
        path.write_text(report.svg(), encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"--svg {str(path)!r} can't be written: {error.strerror}",
                              hint="name a file in a folder that can be written") from None


def _show(report: PlanReport) -> None:
    left, columns = report.left, room()
    rows = [[m.device.name, str(report.layers_on(m.device.name)),
             *(f"{n / _MIB:,.1f}" for n in (
                 m.mapped_bytes, m.weight_bytes, m.kv_bytes, m.arena_bytes, m.ring_bytes,
                 m.staging_bytes, left[m.device.name]))] for m in report.devices]
    lines = paragraph(f"{report.title}, context of {report.context_size:,} tokens, cache of "
                      f"{report.cache_tokens:,} (MiB)", columns)
    lines += fitted(("device", "layers", *_SIZES), rows, columns, idle=("0.0",))
    for line in [*report.blueprint.offloaded(), *_idle(report), *report.caches(), *report.speed(),
                 *report.totals(), *_bar(report)]:
        lines += paragraph(visible(line), columns, "  ")
    print("\n".join(map(visible, lines)))
    print("\n".join(["", *legend(_words(report, rows), columns)]))
    for device, free in left.items():
        if free < 0:
            print(f"{device} has {-free / _MIB:,.1f} MiB less than it needs", file=sys.stderr)
    if not report.fits():
        print("this does not fit: a device has less memory than it needs", file=sys.stderr)


def _idle(report: PlanReport) -> list[str]:
    """A line for each device that gets nothing, and is not in the table."""
    there, made = {m.device.name for m in report.devices}, report.blueprint.main
    idle = [d for d in report.blueprint.devices if d.name not in there and not d.is_host]
    why = ""
    if made.options.place.n_gpu_layers == "auto":
        why = ", all is predicted to be faster without it"
        if not made.n_offloaded():
            why = ", the CPU alone is predicted to be faster (-ngl all)"
    return [f"{d.name}: no layers{why if d.memory_bytes else ', its memory is unknown (-ngl all)'}"
            for d in idle]


def _note(report: PlanReport, placement: Parameters, *, as_json: bool) -> None:
    from unladen.schedule.place import in_vain
    made = report.blueprint.main
    vain = in_vain(made.options.place.n_gpu_layers, made.devices)
    if vain:
        note(vain, as_json=as_json)
    note_devices(made.devices, set(made.layers), placement, as_json=as_json)


def _words(report: PlanReport, rows: list[list[str]]) -> dict[str, str]:
    """The meanings for the legend, only for columns that have a size other than 0."""
    used = [any(row[i] != "0.0" for row in rows) for i in range(2, len(_SIZES) + 2)]
    words = {name: meaning for (name, meaning), is_used in zip(_SIZES.items(), used, strict=True)
             if is_used}
    for m in report.devices:
        if m.device.is_pretend:
            words[m.device.name] = "a device that isn't there, as --pretend describes it"
    return words


def _bar(report: PlanReport) -> list[str]:
    """Lines with a letter for each layer of each graph; letters name the devices in the order of
    the table."""
    names = [m.device.name for m in report.devices]
    letters = {name: ascii_uppercase[i % 26] for i, name in enumerate(names)}
    legend = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return [f"{'' if name == MAIN else f'{name} '}layers: "
            f"{''.join(letters[d.name] for d in b.layers)} ({legend})"
            for name, b in report.blueprint.members.items()]
