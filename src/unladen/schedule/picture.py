"""A plan as a picture: which layers stand on which device, and what fills its memory."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen.schedule.report import PlanReport

COLORS = ("#3f6fa3", "#d9772b", "#4d8f43", "#8f5a96", "#a8483f", "#8a6d4f", "#b0891b", "#4f5fb5")
PARTS = (("mapped_bytes", "mapped", "#c3cad4"), ("weight_bytes", "weights", "#6b778a"),
         ("kv_bytes", "KV", "#2a9d8f"), ("arena_bytes", "arena", "#e0b94a"),
         ("ring_bytes", "ring", "#7d8fd6"), ("staging_bytes", "staging", "#c77dd6"))
WIDTH, LEFT, LANE, TOP = 900, 130, 64, 64
"""Pixels: the picture, the names' column, a device's lane, what is above the lanes."""


def svg(report: PlanReport) -> str:
    """``report`` as SVG: a lane for each device with its layers and, below them, its memory."""
    lanes = [m.device.name for m in report.devices]
    height = TOP + LANE * len(lanes) + 74
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="13" fill="#222">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           _text(16, 26, f"{report.title}, context of {report.context_size:,} tokens", 16),
           *_columns(report), *_lanes(report, lanes), *_legend(report, height)]
    return "\n".join([*out, "</svg>", ""])


def _columns(report: PlanReport) -> list[str]:
    """Cells for embeddings, each layer and the head, in the lanes of their devices."""
    embed, head = report.draft.ends()
    cells = [(embed, "E", "embeddings"),
             *((d.name, str(i), f"layer {i}") for i, d in enumerate(report.draft.layers)),
             (head, "H", "output head")]
    names = [m.device.name for m in report.devices]
    step = (WIDTH - LEFT - 24) / len(cells)
    out = []
    for i, (name, short, long) in enumerate(cells):
        lane = names.index(name)
        x, y = LEFT + i * step, TOP + lane * LANE
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{max(step - 2, 1):.1f}" height="26" rx="2" '
                   f'fill="{COLORS[lane % len(COLORS)]}"><title>{escape(long)} on {escape(name)}'
                   '</title></rect>')
        if step > 16 or short in "EH":
            out.append(f'<text x="{x + (step - 2) / 2:.1f}" y="{y + 17}" font-size="10" '
                       f'fill="#fff" text-anchor="middle">{short}</text>')
    return out


def _lanes(report: PlanReport, names: list[str]) -> list[str]:
    """Names and memory bars."""
    out = []
    for lane, (name, memory) in enumerate(zip(names, report.devices, strict=True)):
        y = TOP + lane * LANE
        out.append(_text(16, y + 18, name, 14))
        n = report.layers_on(name)
        out.append(_text(16, y + 42, f"{n} layer{'s' * (n != 1)}", 11))
        total = max(report.free[name], memory.mapped_bytes + memory.needed_bytes, 1)
        scale, x = (WIDTH - LEFT - 26) / total, float(LEFT)
        out.append(f'<rect x="{LEFT}" y="{y + 32}" width="{WIDTH - LEFT - 26}" height="12" '
                   'fill="#eef0f3"/>')
        for field, label, color in PARTS:
            width = getattr(memory, field) * scale
            if width >= 0.2:
                out.append(f'<rect x="{x:.1f}" y="{y + 32}" width="{width:.1f}" height="12" '
                           f'fill="{color}"><title>{label} {_gib(getattr(memory, field))}</title>'
                           '</rect>')
            x += width
        left = report.left[name]
        state = f"{_gib(left)} left of {_gib(report.free[name])}" if left >= 0 else (
            f"{_gib(-left)} too much")
        out.append(f'<text x="{WIDTH - 26}" y="{y + 56}" font-size="11" text-anchor="end">'
                   f'{state}</text>')
    return out


def _legend(report: PlanReport, height: int) -> list[str]:
    out, x = [], LEFT
    for _, label, color in PARTS:
        out += [f'<rect x="{x}" y="{height - 62}" width="12" height="12" fill="{color}"/>',
                _text(x + 18, height - 52, label, 11)]
        x += 34 + 8 * len(label)
    lines = report.speed()
    return out + [_text(16, height - 30 + 18 * i, line, 13) for i, line in enumerate(lines)]


def _text(x: int, y: int, text: str, size: int) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{escape(text)}</text>'


def _gib(n: int) -> str:
    return f"{n / 2**30:.1f} GiB" if n >= 2**30 else f"{n / 2**20:.1f} MiB"
