"""Results as a Markdown table and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
WIDTH, ROW, LEFT = 760, 22, 330


def table(data: dict[str, Any]) -> str:
    """When, where, and a line for each test."""
    limits = "; ".join(f"{n['n_threads']} thread{'s' * (n['n_threads'] > 1)}: "
                       f"{n['read_bytes_s'] / 1e9:.1f} GB/s read "
                       f"({n['usual_read_bytes_s'] / 1e9:.1f} in the median pass), "
                       f"{n['int8_macs_s'] / 1e9:.0f} G 8-bit multiply-adds a second"
                       for n in data["limits"])
    lines = [f"{data['date']}, {data['machine']}, {data['peer']}; medians of {data['rounds']} "
             "alternating rounds.",
             f"Limits, medians of what was measured around each run: {limits}.", "",
             "| file | test | threads | ratio | peer's best setting | of read limit "
             "| of its median pass | bytes read | of arithmetic limit |", f"|{' --- |' * 9}"]
    for row in data["rows"]:
        read, usual, of_bytes, macs = (
            f"{100 * row['share'][k]:.0f} %" if k in row["share"] else ""
            for k in ("read", "usual_read", "of_bytes", "int8"))
        lines.append(f"| {row['model']} | {row['test']} | {row['threads']} | {row['ratio']:.2f} "
                     f"| {row['peer_setting']} | {read} | {usual} | {of_bytes} | {macs} |")
    return "\n".join(lines)


def put(path: Path, text: str) -> None:
    """``text`` between the markers of ``path``; exits where it has none."""
    old = path.read_text()
    if BEGIN not in old or END not in old:
        raise SystemExit(f"error: {path} has no markers\nhint: add {BEGIN} and {END}")
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def picture(data: dict[str, Any]) -> str:
    """Bars of the ratios as SVG, a line where both are equally fast."""
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
