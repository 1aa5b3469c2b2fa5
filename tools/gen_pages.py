"""Writes every generated page; run it after a change that the pages follow from.

    python tools/gen_pages.py            # write what isn't up to date
    python tools/gen_pages.py --check    # write nothing; exit code 1 where a page isn't up to date

It measures an architecture only where its row is missing, and needs the recipes for that: see
``tools/gen_architectures.py``. ``tests/tools`` checks the pages, too.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools"), str(ROOT)]

TOOLS = ("gen_matrices", "gen_reference", "gen_parameters", "gen_vram_table", "gen_plan_picture",
         "gen_history", "gen_talk")


def main() -> int:
    code = max(importlib.import_module(tool).main() for tool in TOOLS)
    architectures = importlib.import_module("gen_architectures")
    missing = architectures.missing()
    if missing and "--check" in sys.argv[1:]:
        print(f"{architectures.DOC} lacks {', '.join(missing)}: run tools/gen_pages.py",
              file=sys.stderr)
        return 1
    if missing:
        architectures.main(missing)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
