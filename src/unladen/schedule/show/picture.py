"""Draws a plan: the layers on each device, and what fills the device's memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from unladen.schedule.fit import DeviceMemory
from unladen.types import size_text

COLORS = ("#3f6fa3", "#d9772b", "#4d8f43", "#8f5a96", "#a8483f", "#8a6d4f", "#b0891b", "#4f5fb5")
"""The colors of the devices' layers, in the order of the devices."""

PARTS = (
    ("mapped_bytes", "mapped", "#c3cad4", "weights used where they lie in the file"),
    ("weight_bytes", "weights", "#6b778a", "weights copied to the device"),
    ("kv_bytes", "KV", "#2a9d8f", "cache of keys and values of all sequences"),
    ("arena_bytes", "arena", "#e0b94a", "what a step computes on the way, reused by the next"),
    ("ring_bytes", "ring", "#7d8fd6",
     "room for the CPU's weights on their way through the device in prompts"),
    ("staging_bytes", "staging", "#c77dd6", "room on the host for copies to and from devices"))
"""The uses of memory: each with the name of its count, its own name, its color and its meaning."""

WIDTH, LEFT, LANE, TOP, LINE = 900, 150, 64, 64, 20
"""Pixels: width of the picture, width of the names' column, height of a device's lane, height of
what is above the lanes, height of a line of the legend."""

MOST_TEXT = 90
"""The picture shows at most this many characters of a name."""

# Characters that XML 1.0 can't write, and those that change the direction of text.
_UNSAFE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
                    "|[\u202a-\u202e\u2066-\u2069]")


class Lane(NamedTuple):
    """A device in the picture: what it holds, the number of its layers, the bytes that are free
    without the plan, and the bytes that are ``left`` with it: below 0 where the device is too
    small."""

    memory: DeviceMemory
    n_layers: int
    free: int
    left: int

    @property
    def name(self) -> str:
        """The device's name."""
        return self.memory.device.name


class Cell(NamedTuple):
    """A part of a graph, in the lane of ``device``: a ``short`` name and a ``long`` one."""

    device: str
    short: str
    long: str


def svg(model: str, size: str, lanes: Sequence[Lane], cells: Sequence[Cell], notes: Sequence[str]
        ) -> str:
    """SVG with a lane for each device: the cells of its layers and, below them, its memory. Under
    the lanes the picture has a legend of the colors and words, and the ``notes``. ``model`` and
    ``size`` are the title."""
    below = _below(lanes, notes)
    height = TOP + LANE * len(lanes) + LINE * len(below) + 14
    title = f"{_fit(model)}, {size}"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'role="img" font-family="sans-serif" font-size="13" fill="#222">',
           f"<title>{_escape(title)}</title>",
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           _text(16, 26, title, 16), *_columns([x.name for x in lanes], cells), *_lanes(lanes)]
    y = TOP + LANE * len(lanes) + 14
    for color, line in below:
        if color:
            out.append(f'<rect x="16" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        out.append(_text(34 if color else 16, y, line, 12))
        y += LINE
    return "\n".join([*out, "</svg>", ""])


def _columns(lanes: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """The cells, from left to right, in the lanes of their devices."""
    step = (WIDTH - LEFT - 24) / len(cells)
    out = []
    for i, (name, short, long) in enumerate(cells):
        if name not in lanes:  # the model has no such part
            continue
        lane = lanes.index(name)
        x, y = LEFT + i * step, TOP + lane * LANE
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{max(step - 2, 1):.1f}" height="26" rx="2" '
                   f'fill="{COLORS[lane % len(COLORS)]}"><title>{_escape(f"{long} on {name}")}'
                   '</title></rect>')
        if step > 16 or short in "EH":
            out.append(f'<text x="{x + (step - 2) / 2:.1f}" y="{y + 17}" font-size="10" '
                       f'fill="#fff" text-anchor="middle">{short}</text>')
    return out


def _lanes(lanes: Sequence[Lane]) -> list[str]:
    """The lanes' names and memory bars."""
    out = []
    for i, lane in enumerate(lanes):
        y, memory, n = TOP + i * LANE, lane.memory, lane.n_layers
        out.append(f"<g><title>{_escape(memory.device.description)}</title>"
                   + _text(16, y + 18, lane.name, 14) + "</g>")
        pretended = "pretended, " if memory.device.is_pretend else ""
        out.append(_text(16, y + 42, f"{pretended}{n} layer{'s' * (n != 1)}", 11))
        total = max(lane.free, memory.mapped_bytes + memory.needed_bytes, 1)
        scale, x = (WIDTH - LEFT - 26) / total, float(LEFT)
        out.append(f'<rect x="{LEFT}" y="{y + 32}" width="{WIDTH - LEFT - 26}" height="12" '
                   'fill="#eef0f3"/>')
        for field, label, color, _ in PARTS:
            n_bytes = getattr(memory, field)
            width = n_bytes * scale
            if width >= 0.2:
                out.append(f'<rect x="{x:.1f}" y="{y + 32}" width="{width:.1f}" height="12" '
                           f'fill="{color}"><title>{label} {size_text(n_bytes)}</title></rect>')
            x += width
        state = f"{size_text(lane.left)} left of {size_text(lane.free)}" if lane.left >= 0 else (
            f"{size_text(-lane.left)} too much")
        out.append(f'<text x="{WIDTH - 26}" y="{y + 56}" font-size="11" text-anchor="end">'
                   f'{state}</text>')
    return out


def _below(lanes: Sequence[Lane], notes: Sequence[str]) -> list[tuple[str, str]]:
    """Lines under the lanes, each with the color that it is about, or ""."""
    lines = [(color, f"{label}: {meaning}") for field, label, color, meaning in PARTS
             if any(getattr(lane.memory, field) for lane in lanes)]
    cells = "Cells are layers; E: embeddings, H: output head."
    if any(lane.memory.device.is_pretend for lane in lanes):
        cells += " Pretended devices are not there: the plan is made as if they were."
    return [*lines, ("", cells), *(("", line) for line in notes)]


def _text(x: int, y: int, text: str, size: int) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{_escape(text)}</text>'


def _escape(text: str) -> str:
    """``text`` as XML, whatever characters it has."""
    return escape(_UNSAFE.sub("\ufffd", text))


def _fit(text: str) -> str:
    """``text``; where it is too long, its beginning and its end."""
    half = MOST_TEXT // 2
    return text if len(text) <= MOST_TEXT else f"{text[:half]}\u2026{text[-half:]}"
