"""Writes results as a file in benchmarks/results/, as a Markdown table and as a picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

WIDTH, ROW, LEFT = 760, 22, 330
COLUMNS = {"model": "file", "test": "test", "threads": "threads", "ratio": "ratio",
           "peer_setting": "peer's best setting", "read": "of read limit, %",
           "usual_read": "of its median pass, %", "of_bytes": "bytes read, %",
           "int8": "of arithmetic limit, %"}
"""The columns of the table: a row's key and the heading. benchmarks/results/README.md describes
the file."""


def save(folder: Path, data: dict[str, Any], path: Path | None = None) -> Path:
    """Write ``data`` to ``path``, an earlier result, or without one to a file in ``folder`` that is
    named after its date, machine and title. An existing file is kept; the new one gets a number."""
    if path is None:
        folder.mkdir(parents=True, exist_ok=True)
        path = _new(folder, data)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _new(folder: Path, data: dict[str, Any]) -> Path:
    words = re.sub(r"[^a-z0-9.]+", "-", f"{data['machine']} {data['title']}".lower()).strip("-")
    path, n = folder / f"{data['date']}-{words}.json", 1
    while path.exists():
        n += 1
        path = folder / f"{data['date']}-{words}-{n}.json"
    return path


def table(data: dict[str, Any]) -> str:
    """The table in Markdown: a line for each test."""
    rows = [" | ".join(str(row.get(key, "")) for key in COLUMNS) for row in data["rows"]]
    return "\n".join([f"| {' | '.join(COLUMNS.values())} |", f"|{' --- |' * len(COLUMNS)}",
                      *(f"| {row} |" for row in rows)])


def picture(data: dict[str, Any]) -> str:
    """An SVG with a bar for each ratio, and a line at 1, where both are equally fast."""
    rows = data["rows"]
    scale = (WIDTH - LEFT - 60) / max(1.2, *(row["ratio"] for row in rows))
    one, height = LEFT + scale, ROW * (len(rows) + 2)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif" font-size="13">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="8" y="16">tokens a second, unladen / {data["peer"]}, {data["date"]}</text>']
    for i, row in enumerate(rows):
        y = ROW * (i + 1) + 6
        color = "#2a7f62" if row["ratio"] >= 1 else "#b5533c"
        label = f"{row['model']} {row['test']}, {row['threads']} t"
        parts += [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{label}</text>',
                  f'<rect x="{LEFT}" y="{y}" width="{scale * row["ratio"]:.1f}" height="16" '
                  f'fill="{color}"/>',
                  f'<text x="{LEFT + scale * row["ratio"] + 6:.1f}" y="{y + 13}">'
                  f'{row["ratio"]:.2f}</text>']
    parts += [f'<line x1="{one:.1f}" y1="24" x2="{one:.1f}" y2="{height - 12}" stroke="black"/>',
              "</svg>"]
    return "\n".join(parts) + "\n"
