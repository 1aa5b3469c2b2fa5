"""Draws docs/concepts/plan.svg: a model larger than two graphics cards, as "auto" places it.

With ``--check`` it fails if the file is out of date. Nothing is measured: the speed of every device
is given.
"""

from __future__ import annotations

import sys

from gen_vram_table import MODELS, ROOT, recipe  # first: it adds src/ and tests/ to sys.path
from schedule.paper import paper_file
from unladen.assembly.setup import blueprint_for
from unladen.backends.base import Device
from unladen.models import load_architecture
from unladen.schedule.options import PlanOptions
from unladen.schedule.show.pretend import pretended
from unladen.schedule.show.report import PlanReport
from unladen.types import MAIN

FILE = ROOT / "docs/concepts/plan.svg"
CARDS = "24GB:1000GBs,12GB:360GBs:12GBs"
HOST = Device("null:9", "the computer around them", 64 << 30, 60e9, 1e12, is_host=True,
              launch_s=3e-6)
NAMES = {"null:0": "card 0", "null:1": "card 1", "null:9": "CPU"}


def picture() -> str:
    """The SVG's text."""
    name, shape, _ = MODELS["70B"]
    architecture = load_architecture(paper_file(shape, recipe("Q4_K_M", shape)))
    options = PlanOptions([*pretended(CARDS), HOST])
    blueprint, context = blueprint_for({MAIN: architecture}, options, context_size=8192,
                                       batch_size=512, max_seqs=4, kv_type="f16",
                                       cache_tokens=None)
    svg = PlanReport.of(blueprint, f"{name}, Q4_K_M", context).svg()
    for device, word in NAMES.items():
        svg = svg.replace(device, word)
    return svg


def main() -> int:
    svg = picture()
    if "--check" in sys.argv[1:]:
        old = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        if old != svg:
            print(f"{FILE} is out of date: run tools/gen_plan_picture.py", file=sys.stderr)
        return int(old != svg)
    FILE.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
