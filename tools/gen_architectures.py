"""Writes docs/reference/architectures.md: how close each architecture's logits are to llama.cpp's.

    python tools/gen_architectures.py            # every row
    python tools/gen_architectures.py NAME ...   # the rows of these recipes; others stay

``tools/gen_pages.py`` adds the rows that are missing.

Needs the recipes that tests/parity/recipes.py looks for, and a Vulkan driver (Mesa's will do).
``tests/tools/test_architectures.py`` checks that the table has every architecture.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "src"), str(ROOT)]

from tests.parity import recipes  # noqa: E402
from tests.parity.recipes import TRAINED, Recipe, answer, error  # noqa: E402

from unladen import Model  # noqa: E402
from unladen.models import registry  # noqa: E402

DOC = ROOT / "docs/reference/architectures.md"
HEAD = """# Architectures

What loads, by GGUF's name in `general.architecture`, and how near it comes to llama.cpp on a tiny
model of that architecture with random weights: the sum of squared differences of all logits (of an
encoder's embeddings) over the sum of their squares, on a prompt of 100 tokens. Summing float32
numbers in another order moves it by about 1e-12, rounding the cache to float16 by about 1e-7; more
than 1e-5 would be a wrong operation.

`reference` is NumPy, `cpu` and `wgpu` have a float32 cache (`cpu f16`: a float16 one); of `cpu` it
is the worst of three: the prompt whole, in chunks of 7, token by token. "Elsewhere" are the ops
that `wgpu` leaves to another device. `tests/parity` holds all of them to bounds, also beside other
sequences, divided over two devices at every layer, after rolling back five tokens, and after saving
and restoring the state.

| architecture | model | reference | cpu | cpu f16 | wgpu | elsewhere |
| --- | --- | --- | --- | --- | --- | --- |
"""


def row(recipe: Recipe) -> str:
    name, _, kind = recipe.name.rpartition("-")
    sizes = (512, 7, 1)
    modes = ([{"devices": ["reference"], "kv_type": "f32"}],
             [{"devices": ["cpu"], "kv_type": "f32", "batch_size": n} for n in sizes],
             [{"devices": ["cpu"], "batch_size": n} for n in sizes])
    cells = [name, kind, *(f"{max(measured(recipe, m) for m in each):.0e}" for each in modes)]
    with Model(recipe.path, devices=["wgpu:0"], kv_type="f32") as model:
        cells.append(f"{error(answer(model, recipe.tokens), recipe.expected):.0e}")
        placed = [line.split() for line in model.placement().splitlines()]
    ops = Counter(words[3] for words in placed if not words[2].startswith("wgpu"))
    return f"| {' | '.join(cells)} | {', '.join(sorted(ops))} |"


def measured(recipe: Recipe, options: dict[str, object]) -> float:
    with Model(recipe.path, **options) as model:  # type: ignore[arg-type]
        return error(answer(model, recipe.tokens), recipe.expected)


def known_rows() -> dict[str, str]:
    """The rows that the table has at present, by recipe."""
    rows = [line for line in DOC.read_text().splitlines() if line.startswith("| ")]
    return {"-".join(cell.strip() for cell in r.split("|")[1:3]): r for r in rows}


def missing() -> list[str]:
    """The recipes that have no row."""
    return [name for name in recipes.names() if name not in known_rows()]


def main(wanted: list[str]) -> None:
    lines, known = [], known_rows() if wanted else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in recipes.names():
            if name not in wanted and name in known:
                lines.append(known[name])
                continue
            lines.append(row(recipes.make(name, Path(folder))))
            print(lines[-1], file=sys.stderr, flush=True)
    rest = sorted(TRAINED & registry().keys())
    tail = f"\nWithout a recipe, compared on trained models: {', '.join(rest)}.\n" if rest else ""
    DOC.write_text(HEAD + "\n".join(lines) + "\n" + tail)


if __name__ == "__main__":
    main(sys.argv[1:])
